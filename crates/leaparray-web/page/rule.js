// The numbers of the server's rule: `document.rs` writes them here and into the help.

const RULE = JSON.parse('/*RULE*/');
const RECENT = RULE.recent;
/** Below this number of requests a share is told as "3 of 7". */
const FEW = RULE.few;
