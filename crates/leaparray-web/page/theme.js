// The theme: that of the system, light or dark. It is kept in this browser if that is allowed.

import { byId } from './dom.js';
import { readPalette } from './palette.js';
import { requestRender } from './render.js';
import { keepStored, readStored } from './storage.js';

const THEMES = ['system', 'light', 'dark'];
const THEME_SIGNS = { system: '◐', light: '☀', dark: '☾' };
const THEME_KEY = 'leaparray-theme';

function storedTheme() {
  const theme = readStored(THEME_KEY);
  return THEMES.includes(theme) ? theme : 'system';
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

export function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  keepStored(THEME_KEY, theme);
  // What could not be stored is still applied once.
  applyTheme(theme);
}

export function startTheme() {
  applyTheme(storedTheme());
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) matchMedia(query).addEventListener('change', () => applyTheme(storedTheme()));
  byId('theme').addEventListener('click', nextTheme);
}
