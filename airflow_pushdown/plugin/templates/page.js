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
