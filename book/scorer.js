// Sphinx puts this in front of its search: pages that match by title or file name come first, then
// manuals, the glossary and lessons; functions of the reference come last.
const dashed = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
const wanted = dashed(new URLSearchParams(location.search).get("q") ?? "-");
const places = { "docs/": 30, glossary: 25, "notebooks/": 20, "reference/": -200 };
const kinds = { title: 100, index: 100, object: 0 };
var Scorer = {
  score: ([page, , , , score, , kind]) => {
    const place = Object.keys(places).find((start) => page.startsWith(start));
    const named = dashed(page).includes(wanted) ? 60 : 0;
    return score + (kinds[kind] ?? 50) + (places[place] ?? 0) + named;
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
