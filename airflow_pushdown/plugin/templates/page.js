"use strict";
// Airflow's UI sets a class on its own page, and stores the choice for pages of the same address.
(() => {
  const page = document.documentElement;
  const airflow = window.parent === window ? null : window.parent.document;
  const chosen = () => {
    if (airflow) return airflow.documentElement.classList.contains("dark") ? "dark" : "light";
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const follow = () => { page.dataset.theme = chosen() ?? ""; };
  follow();
  if (!airflow) {
    window.addEventListener("storage", follow);
    return;
  }
  new MutationObserver(follow).observe(airflow.documentElement, { attributeFilter: ["class"] });
  // A tab is a sandbox that must not replace the page around it. So Airflow's own page follows the link.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target]");
    if (!link) return;
    event.preventDefault();
    const copy = airflow.createElement("a");
    copy.href = link.getAttribute("href");
    if (link.getAttribute("target") === "_blank" || event.ctrlKey || event.metaKey) copy.target = "_blank";
    copy.rel = "noopener noreferrer";
    copy.click();
  });
})();

// The page of a running task replaces its figures every few seconds, and has them read aloud every half minute. It loads
// itself again when anything else has changed, so that the report follows when the task has ended.
addEventListener("DOMContentLoaded", () => {
  const shown = document.querySelector("main[data-version]");
  if (!shown) return;
  let silent = 0;
  const wait = () => { setTimeout(refresh, shown.dataset.seconds * 1000); };
  const refresh = async () => {
    if (document.hidden) return wait();
    let page;
    try {
      const answer = await fetch(location.href);
      if (answer.status >= 500) return wait();
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      return wait();
    }
    if (page.querySelector("main")?.dataset.version !== shown.dataset.version) return location.reload();
    const figures = page.querySelector(".figures");
    if (figures) {
      shown.querySelector(".figures").replaceWith(figures);
      silent += Number(shown.dataset.seconds);
      if (silent >= 30) {
        silent = 0;
        shown.querySelector("[role=status]").textContent = figures.querySelector("p").textContent;
      }
    }
    wait();
  };
  wait();
});
