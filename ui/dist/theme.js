// Sets the theme before the first paint, so that a dark page never flashes white. `src/app/theme.ts` changes it later.
(() => {
  let wanted = null;
  try {
    wanted = localStorage.getItem("gantry.theme");
  } catch {
    // A browser that keeps nothing gets the system's theme.
  }
  const dark =
    wanted === "dark" || (wanted !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
