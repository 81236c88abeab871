/* Light or dark: the system's choice until the reader makes another. Runs before the first paint, hence no module. */
{
  const root = document.documentElement;
  const remembered = () => { try { return localStorage.getItem("disco-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("disco-theme", theme); } catch { /* private window */ } };
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (remembered()) root.dataset.theme = remembered();
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
    });
  });
}
