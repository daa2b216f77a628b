// Without a server a page may not fetch others, so their texts come from a script that search.html loads.
if (location.protocol === "file:") {
  const escaped = (text) => text.replace(/[&<>]/g, (it) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[it]);
  let texts;
  const load = () =>
    (texts ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: "_static/texts.js", onload: () => done(window.TEXTS), onerror: failed });
      document.head.append(script);
    }));
  window.fetch = async (url) => {
    const name = String(url).replace(/^(\.\/)+/, "");
    const sections = ((await load())[name] ?? []).map(([id, text]) => `<section id="${id}">${escaped(text)}</section>`);
    return { text: async () => `<div role="main">${sections.join("\n")}</div>` };
  };
}

// What scrolls sideways can be reached, and scrolled, with the keyboard.
const reach = () => {
  for (const it of document.querySelectorAll("pre, .table-wrapper, .cell_output"))
    if (it.scrollWidth > it.clientWidth) it.tabIndex = 0;
};
addEventListener("load", reach);
addEventListener("resize", reach);
document.addEventListener("toggle", reach, true); // a folded cell that opens

// A button copies a block of code, but not what a cell printed.
const copied = async (button, text) => {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
};
addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    if (block.closest(".cell_output")) continue;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", () => copied(button, block.querySelector("pre").textContent));
    block.append(button);
  }
});
