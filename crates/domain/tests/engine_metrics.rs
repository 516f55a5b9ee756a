//! Tests with what real engines wrote at `/metrics` (`metrics/*.txt`, recorded), and with what a broken one might
//! write.

use gantry_domain::{
    engine_metrics::{EngineMetrics, LatencySource, parse},
    model::EngineKind::{Llamacpp, Vllm},
};

#[test]
fn the_text_of_vllm_gives_percentiles_between_its_buckets() {
    let read = parse(Vllm, include_str!("metrics/vllm-0.32.0.txt")).unwrap();
    // There are 19 requests. For 9 of them the first token came within 100 ms, for 14 within 250 ms; 17 ended within 40
    // s and 19 within 80 s.
    let wanted = EngineMetrics {
        requests_running: Some(0),
        requests_waiting: Some(0),
        kv_cache_usage: Some(0.0),
        prompt_tokens_total: Some(187),
        generation_tokens_total: Some(92),
        ttft_p50_ms: Some(115.0),
        ttft_p95_ms: Some(61_000.0),
        latency_p50_ms: Some(285.0),
        latency_p95_ms: Some(55_250.0),
        latency_source: Some(LatencySource::Engine),
        prefix_cache_hit_rate: Some(0.0),
    };
    assert_eq!(read, wanted);
}

#[test]
fn llama_server_has_no_histograms() {
    let read = parse(Llamacpp, include_str!("metrics/llama-b11434.txt")).unwrap();
    let wanted = EngineMetrics {
        requests_running: Some(0),
        requests_waiting: Some(0),
        prompt_tokens_total: Some(93),
        generation_tokens_total: Some(649),
        // The cache held 232 of 325 tokens.
        prefix_cache_hit_rate: Some(232.0 / 325.0),
        ..EngineMetrics::default()
    };
    assert_eq!(read, wanted);
}

#[test]
fn engines_of_one_model_are_added_up_and_older_names_are_known() {
    let text = r#"vllm:num_requests_running{engine="0",model_name="a \"b\" } le=\"1\""} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 3 1795219793699
vllm:gpu_cache_usage_perc{engine="0"} 0.2
vllm:gpu_cache_usage_perc{engine="1"} 0.4
vllm:gpu_prefix_cache_queries_total{engine="0"} 8.0
vllm:gpu_prefix_cache_hits_total{engine="0"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 2.0
vllm:time_to_first_token_seconds_bucket{le="1.0",engine="1"} 1.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",engine="1"} 2.0
"#;
    let read = parse(Vllm, text).unwrap();
    assert_eq!((read.requests_running, read.prefix_cache_hit_rate), (Some(5), Some(0.25)));
    assert!((read.kv_cache_usage.unwrap() - 0.3).abs() < 1e-9);
    // Half of the four samples lie below one second; how far the others lie beyond the last bound is unknown.
    assert_eq!((read.ttft_p50_ms, read.ttft_p95_ms), (Some(1000.0), Some(1000.0)));
}

#[test]
fn nonsense_is_passed_over() {
    for text in
        ["", "<html>no</html>", "a", "{", "vllm:num_requests_running", "python_info{} 1", "\0\u{1b}[2J"]
    {
        assert_eq!(parse(Vllm, text), None, "{text:?}");
    }
    let broken = [
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running -1",
        "vllm:num_requests_running +Inf",
        "vllm:num_requests_running 1e400",
        "vllm:num_requests_running{engine=\"0",
        "vllm:num_requests_running{engine} 7",
        "vllm:num_requests_running{engine=\"0\"}",
        "vllm:prompt_tokens_total 1e300",
        "vllm:time_to_first_token_seconds_bucket 5",
        "vllm:time_to_first_token_seconds_bucket{le=\"NaN\"} 5",
        "vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 5",
    ];
    assert_eq!(parse(Vllm, &broken.join("\n")), None);
    // The counts shrink, and there are more bounds than any engine has.
    let name = "vllm:e2e_request_latency_seconds_bucket";
    let many: Vec<_> = (0..100_000).map(|n| format!("{name}{{le=\"{n}\"}} {}", 100_000 - n)).collect();
    assert!(parse(Vllm, &(many.join("\n") + "\nvllm:num_requests_waiting 4")).is_some());
}
