// ---- curves: real time, nothing where nothing is known --------------------------------------------------------------
/** A round number that is not smaller. */
function above(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find(it => it * power >= value * 1.02) * power || 10 * power;
}
const WIDTH = 560, HEIGHT = 150, TOP = 16, BOTTOM = 16;
const clock = at => new Date(at * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
say($('zone'), new Intl.DateTimeFormat([], { timeZoneName: 'short' }).formatToParts().find(it => it.type === 'timeZoneName').value);
/** Series are `{ name, values, level }`: a value for each frame, not finite where it is not known, and a level that is drawn across. */
function chart(id, unit, isStack) {
  const legend = make('ul', { className: 'legend' });
  const scene = shape('g', {}), lines = shape('g', {}), marks = shape('g', {}), moment = shape('line', { class: 'moment', y1: TOP, y2: HEIGHT - BOTTOM });
  const top = shape('text', { x: 2, y: 11 }), since = shape('text', { x: 2, y: HEIGHT - 3 });
  const middle = shape('text', { y: HEIGHT - 3, 'text-anchor': 'middle' }), now = shape('text', { y: HEIGHT - 3, 'text-anchor': 'end' });
  const caption = shape('text', { y: 11, 'text-anchor': 'end' });
  const y = [TOP, (TOP + HEIGHT - BOTTOM) / 2, HEIGHT - BOTTOM];
  const grid = y.map(at => shape('line', { class: 'grid', x1: 0, y1: at, y2: at }));
  const svg = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' },
    scene, ...grid, lines, marks, moment, top, caption, since, middle, now);
  $(id).append(legend, svg);
  return (frames, series, marked, [from, to], at) => {
    // Text isn't stretched with the picture.
    const width = svg.clientWidth || WIDTH, bottom = HEIGHT - BOTTOM;
    svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    grid.forEach(line => line.setAttribute('x2', width));
    for (const text of [now, caption]) text.setAttribute('x', width - 2);
    middle.setAttribute('x', width / 2);
    say(since, clock(from));
    say(middle, clock((from + to) / 2));
    say(now, clock(to));
    const x = at => Math.min(Math.max((at - from) / (to - from), 0), 1) * width;
    moment.setAttribute('visibility', at > from ? 'visible' : 'hidden');
    for (const end of ['x1', 'x2']) moment.setAttribute(end, x(at).toFixed(1));
    svg.onclick = event => pick(from + (event.clientX - svg.getBoundingClientRect().left) / width * (to - from));

    const stacked = isStack ? series.map((_, i) => frames.map((_, at) =>
      series.slice(0, i + 1).reduce((all, it) => all + it.values[at], 0))) : series.map(it => it.values);
    const levels = series.flatMap(it => it.level ?? []);
    const scale = above(Math.max(0, ...levels, ...stacked.map(values => values.reduce((most, it) => it > most ? it : most, 0))));
    say(top, unit(scale));
    const height = value => bottom - value / scale * (bottom - TOP);

    const draw = (group, count, tag) => { resize(group, count, () => shape(tag, {})); return [...group.children]; };
    draw(lines, series.length + levels.length, 'path').forEach((path, i) => {
      if (i >= series.length) {
        path.setAttribute('class', 'level');
        path.setAttribute('d', `M0,${height(levels[i - series.length]).toFixed(1)}H${width}`);
        return;
      }
      path.setAttribute('class', isStack ? `area s${i}` : `s${i}`);
      const runs = runsOf(frames, stacked[i]);
      path.setAttribute('d', runs.map(run => isStack ? area(run, stacked[i], stacked[i - 1]) : line(run, stacked[i])).join(''));
      path.dataset.runs = runs.length;
    });
    // A frame is as wide as the time that it is about: a point alone is seen as well.
    function line([first, last], values) {
      const spots = [[x(frames[first].from), values[first]]];
      for (let at = first; at <= last; at++) spots.push([x(frames[at].to), values[at]]);
      return `M${spots.map(([at, value]) => `${at.toFixed(1)},${height(value).toFixed(1)}`).join('L')}`;
    }
    function area([first, last], upper, lower) {
      const edge = values => {
        const spots = [];
        for (let at = first; at <= last; at++) {
          const level = height(values ? values[at] : 0).toFixed(1);
          spots.push(`${x(frames[at].from).toFixed(1)},${level}`, `${x(frames[at].to).toFixed(1)},${level}`);
        }
        return spots;
      };
      return `M${edge(upper).join('L')}L${edge(lower).reverse().join('L')}Z`;
    }
    const gaps = gapsIn(frames, from);
    draw(scene, gaps.length, 'rect').forEach((rect, i) => {
      const [begin, end] = gaps[i].map(x);
      const attributes = { class: 'gap', x: begin.toFixed(1), width: Math.max(end - begin, 1).toFixed(1), y: TOP, height: bottom - TOP };
      for (const [name, value] of Object.entries(attributes)) rect.setAttribute(name, value);
    });
    draw(marks, marked.length, 'line').forEach((mark, i) => {
      const it = marked[i], at = x(it.at).toFixed(1);
      const attributes = { class: `mark ${it.kind}`, x1: at, x2: at, y1: it.kind === 'limit' ? bottom - 6 : TOP, y2: bottom };
      for (const [name, value] of Object.entries(attributes)) mark.setAttribute(name, value);
      if (!mark.firstChild) mark.append(shape('title', {}));
      say(mark.firstChild, `${clock(it.at)} ${it.text}`);
    });

    resize(legend, series.length, () => make('li', {}, shape('svg', { viewBox: '0 0 26 8', 'aria-hidden': 'true' }, shape('path', {})),
      make('bdi'), ' ', make('b')));
    const last = frames.length - 1;
    const said = series.map((it, i) => {
      const [sample, name, value] = legend.children[i].children;
      sample.firstChild.setAttribute('class', isStack ? `area s${i}` : `s${i}`);
      sample.firstChild.setAttribute('d', isStack ? 'M0,0H26V8H0Z' : 'M0,4H26');
      say(name, cut(it.name));
      say(value, Number.isFinite(it.values[last]) ? unit(it.values[last]) : '–');
      return `${name.textContent} ${value.textContent}`;
    });
    const changes = marked.filter(it => it.kind !== 'limit').map(it => `${clock(it.at)} ${it.text}`);
    say(caption, changes.at(-1) ?? '');
    const more = [gaps.length && `${gaps.length} gaps`, marked.length && `${marked.length} marks`, ...changes.slice(-5)].filter(Boolean);
    svg.setAttribute('aria-label', [...said, ...more].join(', ') || 'nothing yet');
  };
}
const isGap = (frames, at) => frames[at].gap || at > 0 && frames[at].from - frames[at - 1].to > 0.5;
/** First and last index of each stretch of frames with known values and no gap in between. */
function runsOf(frames, values) {
  const runs = [];
  let open = null;
  frames.forEach((frame, at) => {
    if (frame.gap || !Number.isFinite(values[at])) open = null;
    else if (open && !isGap(frames, at)) open[1] = at;
    else runs.push(open = [at, at]);
  });
  return runs;
}
/** Times about which nothing is known: the process was frozen, or there was none. */
function gapsIn(frames, from) {
  const gaps = [];
  frames.forEach((frame, at) => {
    if (frame.gap) gaps.push([frame.from, frame.to]);
    else if (at > 0 && isGap(frames, at)) gaps.push([frames[at - 1].to, frame.from]);
  });
  if (frames.length && frames[0].from - from > 0.5) gaps.push([from, frames[0].from]);
  return gaps;
}
