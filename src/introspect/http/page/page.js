// ---- the page ---------------------------------------------------------------------------------------------------
const VERDICTS = { fine: 'good', busy: 'warn', throttled: 'warn', store_slow: 'warn', store_quiet: 'warn', not_enforcing: 'warn' };
function judge(state, age) {
  const { health, limit_state: limit } = state, moment = picked();
  $('health').className = `wide ${moment ? '' : VERDICTS[health.state] ?? 'bad'}`;
  document.body.classList.toggle('of-past', Boolean(moment));
  say($('headline'), moment ? `At ${clock(Number(view.at))}: ${moment.summary}` : health.headline);
  say($('advice'), moment || health.state === 'fine' ? '' : `. Now: ${health.advice}`);
  say($('since'), `since ${seconds(Math.max(age - health.at_seconds, 0))}.${state.reserved ? ` Held back: ${whole(state.reserved)}.` : ''}`);
  for (const id of ['later', 'latest']) $(id).disabled = !moment;
  $('runbook').hidden = false;
  if ($('runbook').getAttribute('href') !== health.runbook) $('runbook').setAttribute('href', health.runbook);
  say($('why'), limit.sentence);
  $('recorded').hidden = !state.capture;
  // The server does not replay its own trouble: that takes a processor.
  say($('record'), state.capture ? `${seconds(state.capture.span_seconds)} of requests are recorded:` : '');
  say($('what-if'), `admission what-if --url ${location.origin}${base}`);
  const foremost = moment ? foremostOf(moment) : state.foremost ?? [], { limit: bound } = moment || state;
  $('harm').hidden = foremost.length === 0;
  fill($('foremost'), foremost.map(it => [
    asLink(fullName(it.namespace, it.name), hashOf({ [it.kind]: it.name, namespace: it.namespace ?? '' }), '–', it.kind),
    `${whole(it.in_flight)} of ${whole(bound)}${it.held_seconds ? `, each for ${seconds(it.held_seconds)}` : ''}`,
    whole(it.waiting) + (it.oldest_wait_seconds ? `, oldest ${seconds(it.oldest_wait_seconds)}` : ''),
    rate(it.rejected_per_second), rate(it.left_per_second),
  ]), ['name', 'reason', 'reason', 'n', 'n']);
}
/** Shows a moment of the past, in seconds of the wall, or what is now. */
function pick(at) {
  go({ at: at < Date.now() / 1000 - 1 ? at.toFixed(1) : '' });
  if (shown) judge(...shown);
  draw();
}
const sum = (state, field) => state.partitions.reduce((all, one) => all + field(one), 0);
function show(state) {
  const lately = sum(state, one => one.recent.rejected_per_second);
  document.title = `${state.name}: ${whole(state.in_flight)} of ${whole(state.limit)}`;
  say($('name'), state.name);
  say($('identity'), identity(state.identity));
  $('state').className = `pill ${state.ready ? 'good' : 'bad'}`;
  say($('state'), state.ready ? '✓ ready' : state.draining ? '✕ draining' : '✕ leaving');
  $('mode').hidden = state.mode === 'enforce';
  say($('mode'), state.mode === 'observe' ? 'observe: decisions do not bind' : `mode: ${state.mode}`);

  const tiles = [
    ['Limit', whole(state.limit)], ['In flight', whole(state.in_flight)], ['Used', percent(state.utilisation)],
    ['Waiting', whole(state.waiting)], ['At the gate', whole(state.at_gate)],
    ['Admitted / s', rate(sum(state, one => one.recent.admitted_per_second))], ['Rejected / s', rate(lately)],
    ['RTT p99', seconds(newest(frame => frame.whole.rtt_p99_seconds))],
  ];
  showTiles($('tiles'), tiles);

  $('warnings').hidden = state.warnings.length === 0;
  const list = $('warnings').lastElementChild;
  resize(list, state.warnings.length, () => make('li'));
  state.warnings.forEach((warning, i) => say(list.children[i], warning));

  const refusedFirst = [...state.partitions].sort((a, b) => b.recent.rejected_per_second - a.recent.rejected_per_second);
  fill($('partitions'), refusedFirst.map(one => [
    asLink(one.observes ? `${one.name} (dry run)` : one.name, hashOf({ partition: one.name })), asStatus(one.admission.status),
    cell => {
      const below = one.recent.rejected_below_share;
      say(cell, rate(one.recent.rejected_per_second) + (below ? ' ▼' : ''));
      cell.title = below ? 'also below its share' : '';
    },
    `${whole(one.share)} (${one.percent.toFixed(0)} %)`, whole(one.in_flight), whole(one.waiting + one.at_gate), use(one, state.limit),
  ]), ['name', 'status', 'n', 'n less', 'n', 'n', 'less']);

  const reasons = state.partitions.flatMap(one => Object.entries(one.rejected).map(([reason, count]) => {
    const each = one.recent.rejected[reason] ?? 0;
    return { reason, partition: one.name, each, count };
  })).sort((a, b) => b.each - a.each || b.count - a.count);
  fill($('reasons'), reasons.map(it => [words(it.reason), asName(it.partition), rate(it.each), whole(it.count)]), ['name', 'name', 'n', 'n less']);
  for (const { reason } of reasons) {
    const choice = $('of-decisions').elements.reason;
    if (![...choice.options].some(it => it.value === reason)) choice.add(new Option(words(reason), reason));
  }
  $('no-reasons').hidden = reasons.length > 0;
  $('reasons').hidden = reasons.length === 0;
  showLabels(state.labels);
}
function showTiles(list, tiles) {
  resize(list, tiles.length, () => make('div', {}, make('dt'), make('dd')));
  tiles.forEach(([name, value], i) => {
    say(list.children[i].firstElementChild, name);
    say(list.children[i].lastElementChild, value);
  });
}
/** A bar for what runs, and a mark where the share ends. */
const use = (one, limit) => cell => {
  if (!cell.firstChild) cell.append(make('span', { className: 'bar' }, make('i'), make('u')));
  const [part, share] = [one.in_flight / limit, one.share / limit].map(it => Math.min(it || 0, 1));
  cell.firstChild.firstChild.style.width = `${part * 100}%`;
  cell.firstChild.lastChild.style.left = `${share * 100}%`;
  cell.firstChild.title = `${percent(part)} of the limit in use, share ${percent(share)}`;
};
function showLabels(labels) {
  const first = labels.matched ? labels.offset + 1 : 0, last = Math.min(labels.offset + labels.limit, labels.matched);
  const counts = Object.entries(labels.by_status).map(([status, count]) => `${whole(count)} ${status.replaceAll('_', ' ')}`);
  say($('range'), `${whole(first)}–${whole(last)} of ${whole(labels.matched)}${counts.length ? ` (${counts.join(', ')})` : ''}`);
  $('back').disabled = labels.offset === 0;
  $('next').disabled = labels.next_offset === undefined;
  if (labels.matched && labels.offset >= labels.matched) turn(0);
  for (const th of $('labels').tHead.rows[0].cells) {
    if (th.dataset.sort === view.sort) th.ariaSort = view.order === 'asc' ? 'ascending' : 'descending';
    else th.ariaSort = null;
  }
  const rows = labels.labels.flatMap(label => Object.entries(label.admission).map(([kind, it]) => [
    nameOf(label), kind === '*' ? '–' : kind, asStatus(it.status, it.lately, it.without_store), reason(it),
    rate(it.rejected_per_second ?? 0), whole(it.in_flight), whole(it.waiting), seconds(it.estimated_wait_seconds),
    seconds(it.oldest_wait_seconds), whole(it.admitted), whole(it.rejected),
  ]));
  $('labels').classList.toggle('one-class', rows.every(row => row[1] === '–'));
  fill($('labels'), rows, ['name', '', 'status', 'reason', 'n', 'n less', 'n less', 'n less', 'n less', 'n less', 'n less']);
}
const nameOf = label => asLink(label.label && fullName(label.namespace, label.label),
  hashOf({ label: label.label, namespace: label.namespace }), label.overflow ? 'labels without room' : 'without a label');
function reason(section) {
  const it = section.blocked_by;
  if (!it) return '–';
  const then = { wait: 'waits', reject: 'is rejected', empty: 'gets nothing' }[it.when_full];
  if (it.rule === 'store') return `the store grants nothing: next ${then}`;
  const kept = it.reserved ? ` (${whole(it.reserved)} held back)` : '';
  const room = it.room_in_seconds > 0 ? `, room in ${seconds(it.room_in_seconds)}` : '';
  return it.rule === 'draining' ? 'draining' : `${it.rule.replaceAll('_', ' ')}: ${whole(it.used)} of ${whole(it.bound)}${kept}, next ${then}${room}`;
}

// ---- the journal ------------------------------------------------------------------------------------------------
const TONES = { admitted: 'good', granted: 'good', queued: 'soft', cancelled: 'soft', rejected: 'bad', timed_out: 'bad' };
const words = text => text.replaceAll('_', ' ');
/** The time of the wall, with its day if that is another one. */
const when = ({ at_seconds: at }) => {
  const day = new Date((past.start + at) * 1000).toLocaleDateString();
  return `${day === new Date().toLocaleDateString() ? '' : `${day} `}${clock(past.start + at)}`;
};
const asDecision = it => cell => {
  cell.className = `status ${TONES[it.decision] ?? 'warn'}`;
  say(cell, words(it.decision) + (it.count > 1 ? ` ×${whole(it.count)}` : ''));
};
/** The newest decisions; those in a row that differ in nothing but time and numbers are a single one. */
function inARow(entries) {
  const groups = [];
  for (const it of entries.toReversed()) {
    const last = groups.at(-1);
    if (last && ['decision', 'reason', 'rule', 'label', 'namespace', 'class', 'partition'].every(field => last[field] === it[field])) {
      last.count += 1;
      last.since = it;
    } else groups.push({ ...it, count: 1, since: it });
  }
  return groups.slice(0, 30);
}
const SAYS = {
  limit: it => `limit ${whole(it.from)} → ${whole(it.limit)}`, mode: it => `mode ${it.from} → ${it.to}`,
  reload: it => `new settings, limit ${whole(it.from)} → ${whole(it.limit)}`,
  leave: () => 'leaving', drain: () => 'draining', law_panic: () => 'the law panicked', stall: it => `stood still for ${seconds(it.seconds)}`, store: it => `store ${it.from} → ${it.to}`,
};
const sayChange = it => (SAYS[it.change] ?? (() => words(it.change)))(it);
function because(it) {
  if (it.down_seconds !== undefined) return `down for ${seconds(it.down_seconds)}`;
  if (it.rtt_seconds === undefined) return '–';
  const other = it.reference_seconds === undefined ? '' : ` against ${seconds(it.reference_seconds)}`;
  return `RTT ${seconds(it.rtt_seconds)}${other}${it.ratio === undefined ? '' : `, ratio ${it.ratio.toFixed(2)}`}`;
}
function showJournal(decisions, changes) {
  fill($('changes'), changes.entries.toReversed().map(it => [
    when(it), sayChange(it), because(it), whole(it.in_flight), whole(it.waiting),
  ]), ['status', 'name', 'reason', 'n less', 'n less']);
  fill($('decisions'), inARow(decisions.entries).map(it => [
    it.at_seconds - it.since.at_seconds < 1 ? when(it) : `${when(it.since)} to ${when(it)}`, asDecision(it), it.reason ? words(it.reason) : '–',
    it.rule ? words(it.rule) + (it.bound === undefined ? '' : `: ${whole(it.used)} of ${whole(it.bound)}`) : '–',
    asName(it.forgotten ? 'forgotten' : fullName(fullName(it.namespace, it.label), it.class) || '–'),
    asName(it.run ?? '–'), asName(it.partition), it.waited_seconds ? seconds(it.waited_seconds) : '–', whole(it.in_flight), whole(it.waiting),
  ]), ['status', 'status', 'status less', 'reason', 'name', 'name less', 'less', 'n less', 'n less', 'n less']);
  for (const [kind, page] of Object.entries({ decisions, changes })) {
    $(kind).hidden = page.entries.length === 0;
    $(`no-${kind}`).hidden = page.entries.length > 0;
  }
  $('journal').hidden = decisions.capacity === 0;
}

// ---- one partition or one label ---------------------------------------------------------------------------------
const WHEN_FULL = { wait: 'waits', reject: 'rejects', empty: 'answers with nothing' };
function showView(state, label, waiters) {
  if (!view.partition && !view.label) return;
  say($('view-kind'), view.label ? 'label' : 'partition');
  say($('view-name'), cut(view.label ? fullName(view.namespace, view.label) : view.partition));
  $('view-label').hidden = !view.label;
  if (!view.label) {
    const one = state.partitions.find(it => it.name === view.partition);
    return showTiles($('view-tiles'), one ? [
      ['Status', words(one.admission.status)], ['Share', whole(one.share)], ['In flight', whole(one.in_flight)],
      ['Waiting', whole(one.waiting + one.at_gate)], ['of these within its share', whole(one.in_room)],
      ['Admitted / s', rate(one.recent.admitted_per_second)],
      ['Refused / s', rate(one.recent.rejected_per_second)], ['Refused below its share', one.recent.rejected_below_share ? 'yes' : 'no'],
    ] : [['Status', 'no such partition']]);
  }
  const classes = Object.entries(label?.admission ?? {});
  const total = field => whole(classes.reduce((all, [, it]) => all + it[field], 0));
  showTiles($('view-tiles'), label ? [
    ['Status', words(label.status)], ['In flight', total('in_flight')], ['Waiting', total('waiting')],
    ['Oldest waiter', seconds(Math.max(...classes.map(([, it]) => it.oldest_wait_seconds)))],
    ['Admitted', total('admitted')], ['Rejected', total('rejected')],
    ['Refused / s', rate(classes.reduce((all, [, it]) => all + (it.rejected_per_second ?? 0), 0))],
  ] : [['Status', 'not known: no request of it came lately']]);
  const rules = classes.flatMap(([kind, it]) => it.rules.map(rule => [
    words(rule.rule) + (rule.shared ? ' (shared)' : '') + (rule.observes ? ' (dry run)' : ''), kind === '*' ? '–' : kind,
    whole(rule.used), whole(rule.bound), WHEN_FULL[rule.when_full] ?? rule.when_full, words(rule.source),
  ]));
  fill($('rules'), rules, ['name', 'less', 'n', 'n', '', 'less']);
  const rows = (waiters?.waiters ?? []).map(it => [
    whole(it.place), it.stage, asName(it.run ?? '–'), seconds(it.waited_seconds), seconds(it.estimated_wait_seconds),
    it.blocked_by ? words(it.blocked_by.rule) : '–',
  ]);
  fill($('waiters'), rows, ['n', 'less', 'name', 'n', 'n less', 'reason']);
  for (const [id, all] of Object.entries({ rules, waiters: rows })) {
    $(id).hidden = all.length === 0;
    $(`no-${id}`).hidden = all.length > 0;
  }
}

// ---- asking -----------------------------------------------------------------------------------------------------
// A question without an answer for LATE means that the server hangs, and one for OVERDUE is asked anew.
const LATE = 1500, OVERDUE = 5000;
let timer, shown = null, asked = 0, paused = false, pending = null, answered = null, stop = null;
// The last body of each kind, with its tag: a server that has nothing new sends none.
const kept = new Map();
async function read(kind, path, signal) {
  const known = kept.get(kind);
  const headers = known?.path === path ? { 'if-none-match': known.tag } : {};
  const response = await fetch(`${base}${path}`, { cache: 'no-store', headers, signal });
  const now = Number(response.headers.get('admission-now'));
  if (response.status === 304) return [known.body, now, false];
  // A label that was forgotten is no failure of the server.
  if (response.status === 404 && path.startsWith('/labels/')) return [null, now, true];
  // A proxy may have put a page of its own in the place of an answer.
  const isJson = response.headers.get('content-type')?.includes('json');
  if (!response.ok || !isJson) throw Object.assign(new Error(), { status: response.ok ? `${response.status} without JSON` : response.status });
  const body = await response.json();
  kept.set(kind, { path, tag: response.headers.get('etag'), body });
  return [body, now, true];
}
async function ask() {
  clearTimeout(timer);
  const turn = ++asked;
  stop?.abort();
  const abort = stop = new AbortController(), overdue = setTimeout(() => abort.abort(), OVERDUE);
  pending ??= performance.now();
  try {
    const { sort, order, offset, contains, status } = view;
    const questions = {
      state: `?${new URLSearchParams({ sort, order, offset, contains, status, limit: PAGE })}`,
      changes: '/journal?kind=change&limit=12',
      decisions: `/journal?${new URLSearchParams([['kind', 'decision'], ['limit', 512], ...new FormData($('of-decisions'))])}`,
      past: historyPath(),
    };
    if (view.label) {
      // In a path, a browser would take the names `.` and `..` for steps, however they are written.
      const name = new URLSearchParams({ label: view.label, namespace: view.namespace });
      questions.label = `/labels/-?${name}`;
      questions.waiters = `/labels/-/waiters?limit=20&${name}`;
    }
    const found = await Promise.all(Object.entries(questions).map(([kind, path]) => read(kind, path, abort.signal)));
    // Another question was asked meanwhile: its answer counts.
    if (turn !== asked) return;
    const [[state], [changes], [decisions, now], [page, age], [label] = [], [waiters] = []] = found;
    [pending, answered] = [null, new Date()];
    remember(page, age);
    show(state);
    judge(...shown = [state, now]);
    showView(state, label, waiters);
    showJournal(decisions, changes);
    draw();
    $('link').className = 'push soft';
    say($('link'), paused ? 'paused' : 'live');
  } catch (error) {
    if (turn !== asked) return;
    if (error.status) pending = null;
    // What was answered, and could not be shown, is no missing answer.
    if (!paused) pending === null ? refused(error.status ?? error.message) : warn();
  } finally {
    clearTimeout(overdue);
  }
  if (!paused && !document.hidden) timer = setTimeout(ask, 1000);
}
/** What is shown is old: says so, since when, and what to do. */
function outdated(what, why, advice) {
  $('link').className = 'push bad';
  const since = answered ? `${what} since ${answered.toLocaleTimeString()}` : what;
  say($('link'), since);
  $('health').className = 'wide bad';
  say($('headline'), `${since}: ${why}; what is shown is from before`);
  say($('advice'), `. Now: ${advice}`);
  say($('since'), '');
  $('state').className = 'pill bad';
  say($('state'), `✕ ${what}`);
  document.title = `✕ ${$('name').textContent}: ${what}`;
}
function warn() {
  outdated('not answering', 'frozen, dead or out of reach, so that all callers may be without answers',
    'take it out of the load balancer, and find out what blocks it');
  $('runbook').setAttribute('href', ($('runbook').getAttribute('href') ?? '').replace(/#.*$/, '#no-answer'));
}
/** It is there, and answers this page with an error. */
function refused(status) {
  const advice = { 401: 'load this page again with its token', 421: 'open this page under a name that the server knows' };
  outdated(`error ${status}`, 'the server, or a proxy before it, does not answer this page; callers may be served all the same',
    advice[status] ?? 'look at its log, and at what stands before it');
}
setInterval(() => { if (!paused && !document.hidden && pending !== null && performance.now() - pending > LATE) warn(); }, 250);
function turn(offset) { go({ offset: String(Math.max(0, offset)) }); ask(); }

$('labels').tHead.addEventListener('click', event => {
  const sort = event.target.closest('th')?.dataset.sort;
  if (!sort || event.target.tagName !== 'BUTTON') return;
  const numbersFirst = sort === 'label' ? 'asc' : 'desc';
  go({ sort, order: view.sort === sort ? (view.order === 'asc' ? 'desc' : 'asc') : numbersFirst });
  turn(0);
});
// A tab that is not seen rests, and asks at once when it is seen again.
document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  pending = null;
  if (!paused && !document.hidden) ask();
});
for (const decision of [...Object.keys(TONES), 'would_queue', 'would_reject'])
  $('of-decisions').elements.decision.add(new Option(words(decision), decision));
$('of-decisions').addEventListener('input', () => ask());
$('of-decisions').addEventListener('submit', event => event.preventDefault());
$('filter').addEventListener('input', () => { go({ contains: $('filter').value }); turn(0); });
$('status').addEventListener('change', () => { go({ status: $('status').value }); turn(0); });
$('span').addEventListener('change', () => { go({ span: $('span').value }); ask(); });
// A link, or the button that goes back.
addEventListener('hashchange', () => { readHash(); ask(); });
$('tools').addEventListener('submit', event => event.preventDefault());
$('back').addEventListener('click', () => turn(Number(view.offset) - PAGE));
$('next').addEventListener('click', () => turn(Number(view.offset) + PAGE));
// A sixtieth of what the charts show: from one to ten looks.
const step = () => SPANS[view.span] / 60;
$('earlier').addEventListener('click', () => pick(Number(view.at || Date.now() / 1000) - step()));
$('later').addEventListener('click', () => pick(Number(view.at) + step()));
$('latest').addEventListener('click', () => pick(Infinity));
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').ariaPressed = String(paused);
  if (!paused) return ask();
  clearTimeout(timer);
  // An answer that still comes is shown; none is late.
  pending = null;
  $('link').className = 'push soft';
  say($('link'), 'paused');
});
readHash();
ask();
