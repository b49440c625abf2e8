// Before the first paint: the theme that a person chose here; without a choice the system decides.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is switched off */ }
