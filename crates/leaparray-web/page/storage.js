// What this browser keeps for the page, if it may.

function readStored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keepStored(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It lasts as long as the page.
  }
}
