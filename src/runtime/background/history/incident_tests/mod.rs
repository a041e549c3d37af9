//! Incidents drawn from a grammar, in virtual time: what the first line says of each, beside what was done and what callers got.
//!
//! `INCIDENTS=FROM..TO` draws those of these seeds, and has a calm day last for 24 hours; all that is wrong is printed.

mod world;

use std::{env, time::Duration};

use fastrand::Rng;
use tokio::time::{Instant, sleep, sleep_until};

use self::world::{Fault, Got, TENANTS, World, run};

const CALM: Duration = Duration::from_secs(90);
/// From an incident until it has to be told.
const AFTER: Duration = Duration::from_secs(15);

/// What was found, and what is wrong with what was said.
struct Judged {
    line: String,
    got: [Got; TENANTS.len()],
    wrong: Vec<&'static str>,
}

/// Whether a name is in the line as a word.
fn names(line: &str, name: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric()).any(|word| word == name)
}

fn judge(world: &World, faults: &[Fault]) -> Judged {
    let snapshot = world.admission.snapshot();
    let (line, got) = (snapshot.health.headline, *world.got.borrow());
    let mut wrong = Vec::new();
    let worst = (0..TENANTS.len()).filter(|it| got[*it].is_hurt()).max_by_key(|it| got[*it].harmed());
    let drains = faults.contains(&Fault::Drain);
    let harmed: u32 = got.iter().map(Got::harmed).sum();
    let all = harmed + got.iter().map(|it| it.served).sum::<u32>();
    match worst {
        Some(_) if line.starts_with("fine") => wrong.push("hurt"),
        Some(who)
            if !drains
                && ![TENANTS[who].0, TENANTS[who].1, "default", "requests", "callers"]
                    .iter()
                    .any(|it| names(&line, it)) =>
        {
            wrong.push("hurt");
        }
        // A hundredth of all is enough for such a word.
        None if harmed * 100 < all
            && ["overloaded", "throttled", "abandoned"].iter().any(|it| line.starts_with(it)) =>
        {
            wrong.push("hurt");
        }
        _ => {}
    }
    let holds = snapshot.labels.iter().max_by_key(|it| it.in_flight).map(|it| (it.name.clone(), it.in_flight));
    if let Some((name, slots)) = holds
        && slots * 2 >= snapshot.limit.max(8)
        && slots * 2 > snapshot.in_flight
        && worst.is_some()
        && !line.contains(&format!("{name} holds "))
    {
        wrong.push("holder");
    }
    for fault in faults {
        let who = fault.who().map_or("", |who| TENANTS[who].0);
        let is_told = match fault {
            // All that comes is refused.
            _ if drains => line.starts_with("draining"),
            Fault::Nothing => !line.contains("changed"),
            // What harms no request need not be told.
            Fault::Leak(..)
            | Fault::Storm(..)
            | Fault::Crowd(..)
            | Fault::Burst(..)
            | Fault::Typo(..)
            | Fault::Cap(..)
            | Fault::Limit(_)
                if worst.is_none() =>
            {
                true
            }
            Fault::Leak(..) => line.contains(&format!("{who} holds ")),
            Fault::Slow(..) => line.contains(&format!("{who} takes ")) || line.contains(&format!("{who} holds ")),
            Fault::Host(_) => line.contains(" takes "),
            Fault::Class(_) => line.contains("class report takes "),
            Fault::Crowd(who, _) => line.contains(&format!("{} sends ", TENANTS[*who].1)),
            Fault::Typo(..) => line.contains("requests of typo come, a partition that no setting knows"),
            Fault::Storm(..) => line.contains(&format!("{who} sends ")),
            Fault::Burst(..) => line.contains(&format!("{who} sends in bursts of ")),
            Fault::Cap(..) | Fault::Limit(_) => line.contains("reloaded"),
            Fault::Impatient(_) => line.contains("leave before the answer") && names(&line, who),
            Fault::Gone(_) => line.contains(&format!("{who} sends nothing")),
            Fault::Freeze => line.contains("stood still for 9"),
            Fault::Drain => false,
        };
        if !is_told {
            wrong.push("change");
        }
    }
    Judged { line, got, wrong }
}

/// Plays an incident with these faults, one a second after the other.
fn play(seed: u64, faults: &[Fault]) -> Judged {
    run(seed, async |world| {
        sleep(CALM).await;
        let calm = judge(&world, &[Fault::Nothing]);
        assert_eq!(calm.wrong, [""; 0], "seed {seed}, before anything happens: {}", calm.line);
        for fault in faults {
            world.cause(*fault).await;
            sleep(Duration::from_secs(1)).await;
        }
        let begin = Instant::now();
        sleep_until(begin + AFTER - Duration::from_secs(10)).await;
        *world.got.borrow_mut() = Default::default();
        sleep_until(begin + AFTER).await;
        judge(&world, faults)
    })
}

fn told(seed: u64, faults: &[Fault]) -> [u32; 3] {
    let it = play(seed, faults);
    let got = TENANTS.iter().zip(it.got).filter(|(_, got)| got.is_hurt());
    let hurt: Vec<_> = got.map(|((name, _), got)| format!("{name} {got:?}")).collect();
    if !it.wrong.is_empty() {
        println!("{seed} {faults:?}: {:?}\n  {}\n  {}", it.wrong, it.line, hurt.join(", "));
    }
    ["hurt", "holder", "change"].map(|what| u32::from(it.wrong.contains(&what)))
}

#[test]
fn the_first_line_tells_of_incidents_that_are_drawn() {
    let wanted = env::var("INCIDENTS").unwrap_or_else(|_| "0..104".to_owned());
    let (from, to) = wanted.split_once("..").expect("FROM..TO");
    let [from, to]: [u64; 2] = [from, to].map(|seed| seed.parse().expect("a seed"));
    let (mut wrong, mut played) = ([0; 3], 0);
    for seed in from..to {
        let mut random = Rng::with_seed(seed);
        let first = Fault::draw((seed % u64::from(Fault::KINDS)) as u32, &mut random);
        let mut faults = vec![first];
        if seed / u64::from(Fault::KINDS) % 2 == 1 {
            let second = Fault::draw(random.u32(..Fault::KINDS), &mut random);
            let is_other = second.who().is_none_or(|who| first.who() != Some(who));
            if is_other && first != Fault::Drain && second != first {
                faults.push(second);
            }
        }
        let found = told(seed, &faults);
        played += 1;
        wrong = std::array::from_fn(|it| wrong[it] + found[it]);
    }
    println!("{played} incidents; wrong about what is hurt, what holds, what changed: {wrong:?}");
    assert!([20, 20, 10].iter().zip(wrong).all(|(one_in, wrong)| one_in * wrong <= played), "{wrong:?} of {played}");
}

/// A day whose load goes up and down as days do: nothing is said of it. Without `INCIDENTS`, the four hours in which it rises most.
#[test]
fn a_calm_day_is_told_as_one() {
    const DAY: u32 = 24 * 60;
    let minutes = if env::var("INCIDENTS").is_ok() { 0..DAY } else { DAY / 6..DAY / 3 };
    let looks = minutes.len();
    let alarms = run(1, async |world| {
        let mut alarms = Vec::new();
        for minute in minutes {
            let part = f64::from(minute) / f64::from(DAY);
            world.wave.set(0.15 - 0.1 * (part * std::f64::consts::TAU).cos());
            sleep(Duration::from_secs(60)).await;
            let line = world.admission.snapshot().health.headline;
            if !line.starts_with("fine: ") || line.contains(';') {
                alarms.push(line);
            }
        }
        let served: u32 = world.got.borrow().iter().map(|it| it.served).sum();
        assert!(served as usize > looks * 300, "{served}");
        alarms
    });
    println!("{} of {looks} looks at a calm day are alarms", alarms.len());
    assert_eq!(alarms.first(), None);
}

/// A handle whose slots are used for half of the time: requests wait now and then, and nothing is said of it.
#[test]
fn a_handle_that_is_well_used_is_told_as_one() {
    let (mut looks, mut alarms) = (0, Vec::new());
    for seed in 0..2 {
        run(seed, async |world| {
            world.admission.reload(world::settings(6, None)).unwrap();
            sleep(Duration::from_secs(900)).await;
            for _ in 0..180 {
                sleep(Duration::from_secs(10)).await;
                let health = world.admission.snapshot().health;
                looks += 1;
                alarms.extend(Some(health.headline).filter(|_| !health.changed.is_empty()));
            }
        });
    }
    println!("{} of {looks} looks at a handle that is well used are alarms", alarms.len());
    assert!(alarms.len() * 50 <= looks, "{alarms:#?}");
}
