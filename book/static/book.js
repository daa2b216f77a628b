// Without a server a page may not fetch others: results are then shown without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// What scrolls sideways can be reached, and scrolled, with the keyboard.
const reach = () => {
  for (const it of document.querySelectorAll("pre, .table-wrapper, .cell_output"))
    if (it.scrollWidth > it.clientWidth) it.tabIndex = 0;
};
addEventListener("load", reach);
addEventListener("resize", reach);
document.addEventListener("toggle", reach, true); // a folded cell that opens
