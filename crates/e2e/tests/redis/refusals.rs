//! A server that answers, but says that it can't do its work: to the rules it is as good as gone.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tower_admission::{
    Admission, Cap, ClassLimits, Reason, Rules, Ticket,
    snapshot::LabelStatus,
    store::{
        AfterRestart, Claim, Health, LeaseDenied, LeaseGuard, Leases, LockRequest, Locked, OnStoreFailure, RateMode,
        RedisStore, Store, StoreError, Token,
    },
};

use super::support::{admitted, cap, claims, eventually, keys, ms, number, rate, server::Server, shared};

const EXPIRY: Duration = ms(1_200);

fn leases(url: &str, local_shares: bool) -> Leases {
    let store = RedisStore::builder(url, keys()).after_restart(AfterRestart::Grant).timeout(ms(500));
    Leases::builder().expiry(EXPIRY).local_shares(local_shares).build(shared(store.build().unwrap()))
}

fn third() -> OnStoreFailure {
    OnStoreFailure::LocalShare { instances: number(3) }
}

/// What each rule says for a store that is gone holds now, and the health says why.
async fn is_gone(leases: &Leases, what: &str) -> StoreError {
    let open = admitted(leases, cap("open", 9).on_store_failure(OnStoreFailure::FailOpen), 12).await;
    let open = open.unwrap_or_else(|error| panic!("{what}: open answers {error}"));
    assert!(open.len() == 12 && open.iter().all(LeaseGuard::is_without_store), "{what}");
    let share = admitted(leases, cap("share", 10).on_store_failure(third()), 12).await.unwrap();
    assert_eq!(share.len(), 3, "{what}: 10 / 3, rounded down");
    let Err(LeaseDenied::Store(error)) = admitted(leases, cap("closed", 9), 1).await else { panic!("{what}: closed") };
    assert!(error.is_gone(), "{what}: {error:?}");
    assert_ne!(leases.health(), Health::Up, "{what}");
    error
}

/// What is done to a server, and what undoes it.
struct Trouble {
    code: &'static str,
    begin: &'static [&'static [&'static str]],
    end: &'static [&'static [&'static str]],
}

const TROUBLES: [Trouble; 8] = [
    Trouble {
        code: "OOM",
        begin: &[&["CONFIG", "SET", "maxmemory", "1"]],
        end: &[&["CONFIG", "SET", "maxmemory", "0"]],
    },
    Trouble {
        code: "NOREPLICAS",
        begin: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        end: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    },
    Trouble {
        code: "MISCONF",
        begin: &[&["CONFIG", "SET", "save", "1000 1000"], &["BGSAVE"]],
        end: &[&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]],
    },
    Trouble {
        code: "NOPERM of the script",
        begin: &[&["ACL", "SETUSER", "tester", "-evalsha", "-eval"]],
        end: &[&["ACL", "SETUSER", "tester", "+@all"]],
    },
    Trouble {
        code: "NOPERM within the script",
        begin: &[&["ACL", "SETUSER", "tester", "-zadd"]],
        end: &[&["ACL", "SETUSER", "tester", "+@all"]],
    },
    Trouble {
        code: "WRONGPASS",
        begin: &[&["ACL", "SETUSER", "tester", "resetpass", ">other"], &["CLIENT", "KILL", "USER", "tester"]],
        end: &[&["ACL", "SETUSER", "tester", "resetpass", ">secret"]],
    },
    Trouble { code: "READONLY", begin: &[&["REPLICAOF", "127.0.0.1", "1"]], end: &[&["REPLICAOF", "NO", "ONE"]] },
    Trouble {
        code: "MASTERDOWN",
        begin: &[&["CONFIG", "SET", "replica-serve-stale-data", "no"], &["REPLICAOF", "127.0.0.1", "1"]],
        end: &[&["REPLICAOF", "NO", "ONE"]],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_does_what_it_says_while_the_server_can_not_work() {
    for local_shares in [false, true] {
        for Trouble { code, begin, end } in TROUBLES {
            let server = Server::with_args(&["--dbfilename", "nothing-is-saved"]).await;
            // A folder in place of the file.
            std::fs::create_dir(server.folder().join("nothing-is-saved")).unwrap();
            let user = ["ACL", "SETUSER", "tester", "on", ">secret", "~*", "&*", "+@all"];
            server.ask(&user).await.unwrap();
            let leases = leases(&format!("redis://tester:secret@127.0.0.1:{}/", server.port()), local_shares);
            let one = cap("before", 1).on_store_failure(OnStoreFailure::FailOpen);
            let before = admitted(&leases, one.clone(), 1).await.unwrap();
            assert!(!before[0].is_without_store(), "control: {code}");
            for command in begin {
                server.ask(command).await.unwrap();
            }
            if code == "MISCONF" {
                eventually("writes are refused", async || server.ask(&["SET", "x", "1"]).await.is_err()).await;
            }
            let refuses_writes = ["MISCONF", "NOREPLICAS", "READONLY"].contains(&code);
            assert!(!refuses_writes || admitted(&leases, one, 1).await.unwrap().len() == 1, "{code}: no cap is full");
            let error = is_gone(&leases, code).await;
            println!("local shares {local_shares}, {code}: {error}, {:?}", leases.health());
            for command in end {
                server.ask(command).await.unwrap();
            }
            eventually("the store is used again", async || {
                let after =
                    admitted(&leases, cap("after", 9).on_store_failure(OnStoreFailure::FailOpen), 1).await.unwrap();
                !after[0].is_without_store() && leases.health() == Health::Up
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_does_while_a_script_of_others_keeps_the_server_busy() {
    let server = Server::start().await;
    server.ask(&["CONFIG", "SET", "busy-reply-threshold", "10"]).await.unwrap();
    let leases = leases(&server.url(), false);
    let url = server.url();
    let endless = tokio::spawn(async move {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        redis::cmd("EVAL").arg("while true do end").arg(0).query_async::<redis::Value>(&mut connection).await
    });
    eventually("it is busy", async || server.ask(&["PING"]).await.is_err_and(|error| error.code() == Some("BUSY")))
        .await;
    is_gone(&leases, "BUSY").await;
    server.ask(&["SCRIPT", "KILL"]).await.unwrap();
    assert!(endless.await.unwrap().is_err(), "control");
    eventually("the store is used again", async || {
        admitted(&leases, cap("after", 9), 1).await.is_ok() && leases.health() == Health::Up
    })
    .await;
}

/// What a server of requests answers, and what operators see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admissions_answer_so_and_say_so() {
    let server = Server::start().await;
    let nine = |on_store_failure| ClassLimits::new().max_in_flight(Cap::from(9).on_store_failure(on_store_failure));
    let rules =
        Rules::new().class("open", nine(OnStoreFailure::FailOpen)).class("closed", nine(OnStoreFailure::FailClosed));
    let leases = leases(&server.url(), false);
    let admission = Admission::builder().rules(rules).shared(leases, keys()).build().unwrap();
    let admit = async |class: &'static str| admission.admit(Ticket::new().class(class).label("orders")).await;
    assert!(admit("open").await.is_ok() && admit("closed").await.is_ok(), "control");
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    for _ in 0..10 {
        assert!(admit("open").await.is_ok());
        assert_eq!(admit("closed").await.unwrap_err().reason(), Reason::StoreUnavailable);
    }
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.store.as_ref().unwrap().state, "down");
    let status = |class: &str| snapshot.labels.iter().find(|label| label.class == class).map(|label| label.status);
    assert_eq!((status("closed"), status("open")), (Some(LabelStatus::Unavailable), Some(LabelStatus::Accepting)));
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    eventually("it is up", async || admit("closed").await.is_ok()).await;
    assert_eq!(admission.snapshot().store.unwrap().state, "up");
}

/// A server that answers every script with the same.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (from, mut to) = stream.into_split();
                let mut from = BufReader::new(from);
                while let Some(words) = command(&mut from).await {
                    let answer = match words[0].to_ascii_uppercase().as_str() {
                        "HELLO" => "%1\r\n+proto\r\n:3\r\n".to_owned(),
                        "SUBSCRIBE" => format!(">3\r\n+subscribe\r\n${}\r\n{}\r\n:1\r\n", words[1].len(), words[1]),
                        "EVAL" | "EVALSHA" | "SET" => format!("{answer}\r\n"),
                        "INFO" => "$0\r\n\r\n".to_owned(),
                        _ => "+OK\r\n".to_owned(),
                    };
                    if to.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// The words of the next command.
async fn command(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<String>> {
    let mut line = String::new();
    from.read_line(&mut line).await.ok().filter(|&read| read > 0)?;
    let mut words = Vec::new();
    for _ in 0..line.trim().strip_prefix('*')?.parse::<usize>().ok()? {
        line.clear();
        from.read_line(&mut line).await.ok()?;
        let mut word = vec![0; line.trim().strip_prefix('$')?.parse::<usize>().ok()? + 2];
        from.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(words)
}

/// As servers of different versions, and what stands before them, say it.
const ANSWERS: [&str; 26] = [
    "-OOM command not allowed when used memory > 'maxmemory'.",
    "-NOREPLICAS Not enough good replicas to write.",
    "-NOAUTH Authentication required.",
    "-WRONGPASS invalid username-password pair or user is disabled.",
    "-NOPERM this user has no permissions to run the 'evalsha' command",
    "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "-LOADING Redis is loading the dataset in memory",
    "-READONLY You can't write against a read only replica.",
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "-CLUSTERDOWN Hash slot not served",
    "-TRYAGAIN Multiple keys request during rehashing of slot",
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "-UNKILLABLE Sorry the script already executed write commands against the dataset.",
    // Version 6, within a script.
    "-ERR Error running script (call to f_1): @user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.",
    "-ERR Error running script (call to f_1): @user_script:5: @user_script: 5: -NOREPLICAS Not enough good replicas to write.",
    "-ERR The user executing the script can't run this command or subcommand script: f, on @user_script:1.",
    "-ERR unknown command `EVALSHA`, with args beginning with: ",
    "-no upstream host",
    // What can't be read, and what is no answer of a script: a stream that is out of step, or no server of this kind.
    "HTTP/1.1 400 Bad Request",
    "+OK",
    ":1",
    // Answers to other questions.
    "*1\r\n:1",
    "*2\r\n:1\r\n:1",
    "*2\r\n:1\r\n+OK",
    "*2\r\n+granted\r\n:1",
    "*2\r\n$4\r\npong\r\n$0\r\n",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_does_whatever_the_server_says() {
    for answer in ANSWERS {
        for local_shares in [false, true] {
            let leases = leases(&answering(answer).await, local_shares);
            is_gone(&leases, answer).await;
            // Not only for the first time, and probes do not take such an answer for a recovery.
            for _ in 0..20 {
                is_gone(&leases, answer).await;
            }
        }
    }
    println!("{} answers, each 21 times with and without local shares", ANSWERS.len());
}

/// A script that may not do all of it has done what comes before: that is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_script_took_before_it_was_stopped_is_given_back() {
    let server = Server::start().await;
    let leases = leases(&server.url(), false);
    let failing = |claim: Claim| claim.on_store_failure(OnStoreFailure::FailClosed);
    let both = claims([failing(cap("four", 4)), failing(rate("fast", 1_000, RateMode::Window))]);
    let held = async || server.holders(&both.as_slice()[0]).await;
    drop(leases.admit(&both).await.unwrap());
    eventually("control: it is given back", async || held().await == 0).await;
    server.ask(&["ACL", "SETUSER", "default", "-hset"]).await.unwrap();
    for _ in 0..4 {
        let refused = leases.admit(&both).await.unwrap_err();
        assert_eq!(refused, LeaseDenied::Store(StoreError::Unable("NOPERM".to_owned())));
        eventually("it holds nothing", async || held().await == 0).await;
    }
    assert_ne!(leases.health(), Health::Up);
}

/// What is wrong with one key is not what is wrong with the server.
#[tokio::test]
async fn control_a_key_of_others_is_not_a_server_that_is_gone() {
    let server = Server::start().await;
    let leases = leases(&server.url(), false);
    let open = cap("taken", 9).on_store_failure(OnStoreFailure::FailOpen);
    server.ask(&["SET", open.key().as_str(), "1"]).await.unwrap();
    for _ in 0..20 {
        let refused = admitted(&leases, open.clone(), 1).await.unwrap_err();
        assert_eq!(refused, LeaseDenied::Store(StoreError::Refused("WRONGTYPE".to_owned())));
    }
    assert!(admitted(&leases, cap("other", 9), 1).await.is_ok());
    assert_eq!(leases.health(), Health::Up);
}

/// Nor is the key that tells of a restart, which all requests need.
#[tokio::test]
async fn a_mark_that_others_wrote_over_is_made_anew() {
    let server = Server::start().await;
    let store = server.builder().after_restart(AfterRestart::Quiet(ms(300))).build().unwrap();
    let leases = Leases::builder().expiry(ms(300)).build(shared(store));
    eventually("it grants", async || admitted(&leases, cap("nine", 9), 1).await.is_ok()).await;
    for others in
        [["LPUSH", "test:mark", "1"], ["SADD", "test:mark", "1"], ["SET", "test:mark", "99999999999999999999 x"]]
    {
        server.ask(&["DEL", "test:mark"]).await.unwrap();
        server.ask(&others).await.unwrap();
        let refused = admitted(&leases, cap("nine", 9), 1).await.unwrap_err();
        assert!(matches!(refused, LeaseDenied::Store(StoreError::Restarted { .. })), "{refused:?}");
        eventually("it grants again", async || admitted(&leases, cap("nine", 9), 1).await.is_ok()).await;
    }
}

/// Nor is a server that closes connections on which nothing is asked, as what stands before it may do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_after_the_connection_ended_is_answered() {
    let server = Server::start().await;
    for local_shares in [false, true] {
        let leases = leases(&server.url(), local_shares);
        for index in 0..20 {
            assert!(admitted(&leases, cap(&format!("of its own {index}"), 9), 1).await.is_ok(), "{index}");
            // What was admitted is given back by then.
            tokio::time::sleep(ms(20)).await;
            server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
            tokio::time::sleep(ms(50)).await;
        }
    }
}

/// Who holds something on a server that is full keeps it, and can give it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_keeps_what_is_held() {
    for local_shares in [false, true] {
        let server = Server::start().await;
        let store = server.store();
        let leases = leases(&server.url(), local_shares);
        let held = admitted(&leases, cap("held", 9), 4).await.unwrap();
        let lock = Locked::new(keys().admission("acme"), Token::random().unwrap(), EXPIRY);
        store.lock(&LockRequest::new(lock.clone())).await.unwrap();
        server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
        for _ in 0..3 {
            tokio::time::sleep(EXPIRY / 2).await;
            assert!(store.extend(&lock).await.unwrap_or(false), "the lock is kept");
            // Many ask in vain meanwhile.
            for _ in 0..20 {
                assert!(admitted(&leases, cap("more", 9), 1).await.is_err(), "control: it is full");
            }
        }
        tokio::time::sleep(EXPIRY).await;
        let lost = held.iter().filter(|held| held.is_lost()).count();
        println!("full server, local shares {local_shares}: {lost} of {} lost, {:?}", held.len(), leases.health());
        assert_eq!((lost, leases.lost()), (0, 0));
        drop(held);
        let key = keys().cap("acme", "label", "held");
        eventually("it is given back", async || {
            leases.local_share(&key).1 == 0
                && (local_shares || server.ask(&["ZCARD", key.as_str()]).await == Ok(redis::Value::Int(0)))
        })
        .await;
        assert!(store.extend(&lock).await.is_ok() && store.unlock(&lock).await.is_ok());
    }
}
