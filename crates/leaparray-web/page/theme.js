// The theme: that of the system, light or dark. It is kept in this browser if that is allowed.

const THEMES = ['system', 'light', 'dark'];
const THEME_SIGNS = { system: '◐', light: '☀', dark: '☾' };
const THEME_KEY = 'leaparray-theme';

function storedTheme() {
  try {
    const theme = localStorage.getItem(THEME_KEY);
    return THEMES.includes(theme) ? theme : 'system';
  } catch {
    return 'system';
  }
}

function storeTheme(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // Without storage the theme lasts as long as the page.
  }
}

function applyTheme(theme) {
  const { dataset } = document.documentElement;
  if (theme === 'system') delete dataset.theme;
  else dataset.theme = theme;
  const button = byId('theme');
  button.textContent = THEME_SIGNS[theme];
  button.title = `Theme: ${theme} (t)`;
  button.setAttribute('aria-label', `Theme: ${theme}`);
  readPalette();
  requestRender(true);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  storeTheme(theme);
  // What could not be stored is still applied once.
  applyTheme(theme);
}

function startTheme() {
  applyTheme(storedTheme());
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) matchMedia(query).addEventListener('change', () => applyTheme(storedTheme()));
  byId('theme').addEventListener('click', nextTheme);
}
