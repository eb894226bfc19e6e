// The rules: a line above the list, which opens to a table. It is shown only if the server sends them.

import { byId, element, fillTable, headCell, scrolledBox, setClass, setText } from './dom.js';
import { formatCount, formatDuration, formatShare, MISSING } from './format.js';

const RULE_COLUMNS = ['Rule', 'Resource', 'Limiter', 'Mode', 'State', 'Refused, 60 s'];

/** Where the rules come from, and whether that is so now. */
function ruleSourceWords({ source, state, since }, now) {
  if (source === null) return 'set by the program';
  const held = since === null ? '' : ` for ${formatDuration(now - since)}`;
  if (state === 'away') return `▲ ${source} is away${held}: the last rules are in force`;
  if (state === 'wrong') return `▲ ${source} is wrong${held}: the last rules are in force`;
  return `from ${source}`;
}

function ruleCells({ name, resource, limit, mode, state, refused }) {
  const share = refused === null ? [MISSING, 'zero'] : [formatShare(refused, 1), refused === 0 ? 'zero' : '', 'of the requests of its resources'];
  return [[name, '', name], [resource, 'words', resource], [limit, 'words', limit], [mode, 'words'], [state, 'words'], share];
}

export class RuleView {
  constructor(store) {
    this.store = store;
    this.root = byId('rules');
    [this.count, this.source, this.changed] = this.root.querySelectorAll('summary > *');
    this.why = this.root.querySelector('.why');
    this.body = null;
  }

  update() {
    const update = this.store.rules;
    const rules = update?.rules ?? null;
    this.root.hidden = rules === null;
    if (rules === null) return;
    const count = rules.rules.length + rules.left_out;
    setText(this.count, `${formatCount(count)} ${count === 1 ? 'rule' : 'rules'}`);
    setText(this.source, ruleSourceWords(rules, update.now));
    setClass(this.source, rules.state === 'away' || rules.state === 'wrong' ? 'level-1' : '');
    setText(this.changed, rules.changed_at === null ? '' : `version ${formatCount(rules.version)}, ${formatDuration(update.now - rules.changed_at)} ago`);
    if (this.root.open) this.showTable(rules);
  }

  /** Makes the table when it is opened first. */
  showTable(rules) {
    this.why.hidden = rules.why === null;
    setText(this.why, rules.why ?? '');
    if (this.body === null) {
      const table = this.root.appendChild(scrolledBox('fleet-table', 'Rules')).appendChild(element('table'));
      const head = table.createTHead().insertRow();
      for (const column of RULE_COLUMNS) head.append(headCell(column));
      this.body = table.createTBody();
      this.leftOut = this.root.appendChild(element('p', 'left-out'));
    }
    fillTable(this.body, rules.rules.map(ruleCells));
    this.leftOut.hidden = rules.left_out === 0;
    setText(this.leftOut, `${formatCount(rules.left_out)} more are not shown.`);
  }
}
