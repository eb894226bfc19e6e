// The numbers of the server's rule: `document.rs` writes them here and into the help.

export const RULE = JSON.parse('/*RULE*/');
export const RECENT = RULE.recent;
/** Below this number of requests a share is told as "3 of 7". */
export const FEW = RULE.few;
