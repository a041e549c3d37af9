use super::*;

const SAMPLE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r
2024-02-28 23:59:59.5000000,1000,10\r
2024-02-29 00:00:00,0,1\r
\r
2024-03-01 00:00:00.25,4,0";

#[test]
fn times_go_on_over_midnight_and_leap_days() {
    let rows = parse(SAMPLE).unwrap();
    let since_first: Vec<_> = rows.iter().map(|row| (row.nanos - rows[0].nanos) / 1_000_000).collect();
    assert_eq!(since_first, [0, 500, 86_400_750]);
    assert_eq!(timestamp("1970-01-01 00:00:00.000000001"), Some(1));
    assert_eq!(timestamp("2023-11-16 18:17:03.9799600"), Some(1_700_158_623_979_960_000));
}

#[test]
fn work_follows_the_formula() {
    let work: Vec<_> = parse(SAMPLE).unwrap().iter().map(|row| row.work.as_millis()).collect();
    assert_eq!(work, [250 + 300, 30, 1]);
}

#[test]
fn speed_shortens_arrivals_work_and_patience_alike() {
    let rows =
        parse("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:20:00,0,100\n2024-01-01 00:00:00,0,50").unwrap();
    let scenario = scenario(&rows, 10.0).unwrap();
    let seconds = |times: Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    assert_eq!(seconds(scenario.http.iter().map(|it| it.at).collect()), [0.0, 120.0], "sorted by time");
    assert_eq!(seconds(scenario.http.iter().map(|it| it.service).collect()), [0.15, 0.3]);
    assert_eq!(seconds(vec![scenario.deadline, scenario.service]), [3.0, 0.225]);
    assert!(scenario.http.iter().all(|it| it.phase < scenario.phases.len()));
    assert!(super::scenario(&rows, 1.0).unwrap_err().contains("raise --speed"));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |row: &str, expected: &str| {
        let text = format!("{HEADER}\n2024-01-01 00:00:00.0,1,1\n{row}\n");
        let problem = parse(&text).unwrap_err();
        assert!(problem.starts_with("3: "), "{problem}");
        assert!(problem.contains(expected), "{problem} does not say {expected}");
    };
    check("2024-01-01 00:00:00.0,1", "found 2 fields in \"2024-01-01 00:00:00.0,1\", needed are 3");
    check("2024-01-01 00:00:00.0,1,2,3", "found 4 fields");
    check("2024-01-01 00:00:00.0,-1,2", "ContextTokens: found \"-1\", allowed is a whole number");
    check("2024-01-01 00:00:00.0,1,many", "GeneratedTokens: found \"many\"");
    check("2024-01-01 00:00:00.0,1,99999999999999999999", "GeneratedTokens: found");
    for time in
        ["yesterday", "2024-13-01 00:00:00", "2023-02-29 00:00:00", "2024-01-01T00:00:00", "2024-01-01 24:00:00"]
    {
        check(&format!("{time},1,1"), "TIMESTAMP: found");
    }
    check("2024-01-01 00:00:00.,1,1", "TIMESTAMP: found");
    check("2024-01-01 +1:00:00,1,1", "TIMESTAMP: found");
}

#[test]
fn a_wrong_file_is_recognised_by_its_header() {
    assert!(parse("").unwrap_err().starts_with("1: found \"\", allowed is the header"));
    assert!(parse(&"x".repeat(1_000_000)).unwrap_err().len() < 300);
    assert!(parse(HEADER).unwrap_err().starts_with("2: found the end of the file"));
}
