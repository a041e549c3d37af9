//! Incidents that were not rehearsed, each on a real server: whether the first line says which requests are hurt, what holds the
//! slots and what has changed, and from when on.
//!
//! `DRILL=FOLDER` writes a table there, and the lines that were not right.

use std::{collections::BTreeMap, env, fmt::Write, fs, time::Duration};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{
    browser::Browser,
    clients::Flow,
    judge::{Judged, Known},
    prometheus::Prometheus,
    report, screen,
    stories::{Deed, FROZEN, Story, World},
    support,
    told::{self, Told},
};

/// Time in which a server is well, and the looks at the end of it, one a second.
const CALM: Duration = Duration::from_secs(50);
const CALM_LOOKS: u32 = 15;
/// From what is done to the last look.
const AFTER: Duration = Duration::from_secs(25);
const STEP: Duration = Duration::from_millis(500);
/// From the first harm to the first line that is true.
const SOON: Duration = Duration::from_secs(15);
/// Stories, a line each.
const THIRTEEN: &str = include_str!("thirteen.jsonl");
const MORE: &str = include_str!("more.jsonl");

fn stories(lines: &'static str) -> Vec<Story> {
    lines.lines().map(|it| serde_json::from_str(it).unwrap_or_else(|error| panic!("{it}: {error}"))).collect()
}

/// A look at the first line, and what is true of it.
struct Look {
    line: String,
    held: BTreeMap<&'static str, f64>,
    judged: [Judged; 3],
    has_changed: bool,
    worst: Option<&'static str>,
    holder: Option<&'static str>,
}

impl Look {
    fn is_right(&self) -> bool {
        self.judged == [Judged::Right; 3]
    }
}

/// What was seen of a story.
struct Seen {
    alarms: Vec<String>,
    first_true: Option<Duration>,
    /// Looks of the last ten seconds.
    lately: Vec<bool>,
    /// Lines that were not right, by their words, each with the time from what was done.
    others: BTreeMap<String, (Duration, Look)>,
    last: Look,
    told: Told,
    truth: String,
    /// Where the page has what it is about on its first screen, on a wide one and on a phone.
    screens: [String; 2],
}

async fn look(world: &World, counts: &mut Vec<Vec<Flow>>, done: &[Deed]) -> Option<Look> {
    counts.push(world.flows());
    let (flows, lately) = (counts.last()?, &counts[counts.len().saturating_sub(6)..]);
    let mut held = BTreeMap::new();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    for flow in lately.iter().flatten() {
        *held.entry(flow.name).or_insert(0.0) += flow.running as f64 / lately.len() as f64;
    }
    let (json, _) = timeout(Duration::from_secs(2), told::json(&world.url)).await.ok()??;
    let line = json["health"]["headline"].as_str()?.to_owned();
    let changed: Vec<String> = serde_json::from_value(json["health"]["changed"].clone()).unwrap();
    let truth = world.clients.lately();
    let known = Known { settings: &world.story.settings, flows, truth: &truth, held: &held, done };
    let judged = [known.hurt(&line), known.holds(&line), known.changed(&line, &changed)];
    let [worst, holder] = [known.worst(), known.holder()].map(|it| it.map(|it| it.name));
    Some(Look { line, held, judged, has_changed: !changed.is_empty(), worst, holder })
}

/// Plays a story from a calm beginning to its end.
async fn play(mut world: World) -> (World, Seen) {
    let (mut counts, mut alarms) = (Vec::new(), Vec::new());
    sleep(CALM - STEP * 2 * CALM_LOOKS).await;
    for _ in 0..CALM_LOOKS {
        sleep(STEP * 2).await;
        if let Some(it) = look(&world, &mut counts, &[]).await
            && !(it.is_right() && ["fine", "busy"].iter().any(|calm| it.line.starts_with(calm)) && !it.has_changed)
        {
            alarms.push(it.line);
        }
    }
    let deeds = world.story.deeds.clone();
    let begin = Instant::now();
    for deed in &deeds {
        world.cause(deed.clone()).await;
        sleep(STEP * 2).await;
    }
    let freezes = deeds.iter().any(|it| matches!(it, Deed::Freeze));
    let must = deeds.iter().any(Deed::is_worth_a_word);
    let (mut first_true, mut lately, mut last, mut others) = (None, Vec::new(), None, BTreeMap::new());
    while begin.elapsed() < AFTER || last.is_none() {
        if let Some(it) = look(&world, &mut counts, &deeds).await {
            let harmed = world.clients.harmed_since(begin).unwrap_or(begin);
            let from = if freezes { begin + FROZEN } else { harmed };
            // A line is not true of what has not begun.
            if it.is_right() && (it.worst.is_some() || it.has_changed || must) {
                first_true = first_true.or_else(|| Some(from.elapsed()));
            }
            if begin.elapsed() > AFTER - Duration::from_secs(10) {
                lately.push(it.is_right());
            }
            if let Some(before) = last.replace(it).filter(|it| !it.is_right()) {
                let words = before.line.replace(|c: char| c.is_ascii_digit() || c == '.', "");
                others.entry(format!("{words}{:?}", before.judged)).or_insert_with(|| (begin.elapsed(), before));
            }
        }
        sleep(STEP).await;
    }
    let truth = world.clients.lately().to_string();
    let told = told::ask(&world.url, world.story.name, &[]).await;
    let (last, screens) = (last.unwrap(), Default::default());
    (world, Seen { alarms, first_true, lately, others, last, told, truth, screens })
}

fn table(all: &[(World, Seen)]) -> String {
    let mut out = "| incident | what was done | what callers got in ten seconds | slots by the handler's count | worst, holder | first \
                   line | hurt, holder, change | first true after | looks right | false alarms | on the first \
                   screen |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut others = String::new();
    for (World { story, .. }, seen) in all {
        let held: Vec<_> = seen.last.held.iter().map(|(name, slots)| format!("{name} {slots:.1}")).collect();
        let Look { line, judged, worst, holder, .. } = &seen.last;
        let first = seen.first_true.map_or_else(|| "never".to_owned(), |it| format!("{:.1} s", it.as_secs_f64()));
        let right = seen.lately.iter().filter(|it| **it).count();
        let cells = [
            story.name,
            &format!("{:?}", story.deeds),
            &seen.truth,
            &format!("{} of {}", held.join(", "), story.settings.limit),
            &format!("{worst:?}, {holder:?}"),
            line,
            &format!("{judged:?}"),
            &first,
            &format!("{right} of {}", seen.lately.len()),
            &seen.alarms.join(" / "),
            &seen.screens.join(", "),
        ];
        out += &format!("| {} |\n", cells.map(|it| it.replace('|', "\\|")).join(" | "));
        for (after, Look { line, judged, worst, .. }) in seen.others.values() {
            let after = after.as_secs_f64();
            writeln!(others, "- {}, after {after:.1} s, worst {worst:?}, {judged:?}: {line}", story.name).unwrap();
        }
    }
    out + "\nLines that were not right:\n\n" + &others
}

/// Plays stories at once, and fails for lines that are wrong, late or without a reason.
async fn drill(lines: &'static str, file: &str) {
    support::metrics();
    let worlds = join_all(stories(lines).into_iter().map(World::begin)).await;
    let mut all = join_all(worlds.into_iter().map(play)).await;
    // The incidents go on meanwhile.
    let browser = Browser::start().await;
    for (world, seen) in &mut all {
        if let Some(it) = look(world, &mut Vec::new(), &world.story.deeds).await {
            let flows = world.flows();
            let value = |name: &str| flows.iter().find(|it| it.name == name).map(|it| it.value);
            let mut names: Vec<_> = [it.worst, it.holder].into_iter().flatten().filter_map(value).collect();
            names.dedup();
            seen.screens = screen::first(&browser, &world.url, world.story.name, &names).await;
        }
    }
    let table = table(&all);
    println!("{table}");
    if let Some(folder) = report::folder() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), &table).unwrap();
    }
    let mut wrong = Vec::new();
    for (world, seen) in &all {
        let mut add = |problem: String| wrong.push(format!("{}: {problem}", world.story.name));
        for (judged, what) in seen.last.judged.iter().zip(["hurt", "holder", "change"]) {
            if *judged == Judged::Wrong {
                add(format!("{what} is wrong: {}", seen.last.line));
            }
        }
        if seen.first_true.is_none_or(|it| it > SOON) {
            add(format!("first true after {:?}", seen.first_true));
        }
        seen.alarms.iter().for_each(|it| add(format!("alarm while all is well: {it}")));
        if seen.screens.iter().any(String::is_empty) {
            add(format!("not on the first screen, wide or on a phone: {:?}", seen.screens));
        }
        // The command asks at another moment, so numbers may differ.
        let line = seen.told.json["health"]["headline"].as_str().unwrap_or_default();
        if !seen.told.status.contains(line.split(':').next().unwrap_or_default()) {
            add(format!("the command says {:?}, and the JSON {line:?}", seen.told.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn thirteen_incidents_are_told_truly() {
    drill(THIRTEEN, "thirteen.md").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn more_incidents_are_told_truly() {
    drill(MORE, "more.md").await;
}

/// Takes minutes, so it runs only where `DRILL_ALERTS` is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn how_soon_an_alert_pages() {
    if env::var_os("DRILL_ALERTS").is_none() {
        return;
    }
    support::metrics();
    let mut stories = stories(THIRTEEN);
    stories.retain(|it| ["leak", "retry storm", "short deadline"].contains(&it.name));
    let mut worlds = join_all(stories.into_iter().map(World::begin)).await;
    let prometheus = Prometheus::start_unhurried(&worlds.iter().map(|it| it.url.clone()).collect::<Vec<_>>()).await;
    sleep(CALM).await;
    let begin = Instant::now();
    for world in &mut worlds {
        for deed in world.story.deeds.clone() {
            world.cause(deed).await;
        }
    }
    let mut fired = BTreeMap::new();
    let mut silent: Vec<_> = worlds.iter().map(|it| it.story.name).collect();
    while begin.elapsed() < Duration::from_secs(900) && !silent.is_empty() {
        sleep(STEP * 2).await;
        for alert in prometheus.alerts().await.into_iter().filter(|it| it.state == "firing") {
            silent.retain(|name| *name != alert.limiter || alert.severity != "page");
            fired.entry((alert.limiter, alert.severity, alert.name)).or_insert_with(|| begin.elapsed().as_secs());
        }
    }
    println!("seconds until alerts fire: {fired:#?}");
    assert!(silent.is_empty(), "no page in 15 minutes: {silent:?}");
}
