// Sphinx puts this in front of its search, which ranks by single words. Here a manual comes first, the more so if one of
// its headings or its file name has all words of the question; then the glossary and lessons; functions come last.
var Scorer = (() => {
  const places = { "docs/": 60, glossary: 50, "notebooks/": 30, "reference/": -300 };
  let stemmer, asked, headings; // made at the first hit, when Sphinx has loaded its index
  const stemmed = (text) => {
    stemmer ??= new Stemmer();
    const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
    return new Set(words.filter((it) => !stopwords.has(it)).map((it) => stemmer.stemWord(it)));
  };
  const share = (wanted, text) => [...wanted].filter((it) => text.has(it)).length / (wanted.size || 1);
  const bestShares = () => {
    const best = {};
    for (const [title, files] of Object.entries(Search._index.alltitles)) {
      const fits = share(asked, stemmed(title));
      for (const [file] of files) {
        const page = Search._index.docnames[file];
        best[page] = Math.max(best[page] ?? 0, fits);
      }
    }
    return best;
  };
  return {
    score: ([page, , anchor, , score]) => {
      asked ??= stemmed(new URLSearchParams(location.search).get("q") ?? "");
      headings ??= bestShares();
      const place = Object.keys(places).find((start) => page.startsWith(start));
      const named = share(asked, stemmed(page.split("/").pop()));
      const fits = named === 1 ? 1.2 : (headings[page] ?? 0) ** 2;
      return Math.min(score, 15) + (anchor ? 1 : 0) + (places[place] ?? 0) + 100 * fits;
    },
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
  };
})();
