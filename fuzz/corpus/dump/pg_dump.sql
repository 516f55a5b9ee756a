--
-- PostgreSQL database dump
--

-- Dumped from database version 15.18
-- Dumped by pg_dump version 15.18

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

COPY public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) FROM stdin;
1	x	2026-01-01 00:00:00.1+00	t	\\x6b97dc1c1159da6bfc2f4257c5a7c2f97a9f3535e61ff1d5921b60a9921354746034fca4511a07682a17abe775c5ef55	9
2	x	2026-01-01 00:00:00.1+00	t	\\xa45769179509c33af1dc2195b84921c9f439d9206f1638f63b5fdd91619757a273134c6a6b62e5a3308883146dc04c1e	9
3	x	2026-01-01 00:00:00.1+00	t	\\x9d1c6ba77303fce10c8ddf9363ded017c6a61432ec6326cba28344a676610ea76c0b7cff250d8cafc132217146d6c946	9
4	x	2026-01-01 00:00:00.1+00	t	\\x572fa329293b30d0aba423ccbb8e8010f6dfe1bc99c1d039e8f59285b4445ea4eaf741e16907baac62659861b027dc62	9
5	x	2026-01-01 00:00:00.1+00	t	\\xdc350d3cd54f295b2a268073130fd5a1825ba8bd18dd58bf610a3893b2ac0e66ff055f97759714ffcec57552d51f8fd8	9
6	x	2026-01-01 00:00:00.1+00	t	\\xc1091d15f17d1c470af6ae1a1fab7a7e07d818ce847579ba3961b3def66e11383e81c4715b07b0781bd2cba2e70b1339	9
7	x	2026-01-01 00:00:00.1+00	t	\\x96cdaf49d4f4b54cfd3cd0ba968c5768497108812fa418ff2b7f741f9ce2a458dccefc6c9a058930c0fafb84be8a5826	9
8	x	2026-01-01 00:00:00.1+00	t	\\x81f98bd2a21136e368b0adba9322e6b3fadebe1543a181d5c3ec628fe16b987778cbc26c69540f0c9584a96e936a7c11	9
9	x	2026-01-01 00:00:00.1+00	t	\\x9b6f0ddc0431d6551724ed91e2610e4d98955eaa64516e3b8a9a087155641edf8fd8d4d5b570bf4a5185c36c2109c602	9
10	x	2026-01-01 00:00:00.1+00	t	\\xa6f5829dfabc0a119a045cf898ea43f765f78429e611c6d285e2ab460a5a02ae269ab2e4c1c46737d697898bcd00e6f7	9
11	x	2026-01-01 00:00:00.1+00	t	\\x5dd47b183cfbcb15707b64741e66d33029121a7fc5eb95d3e133f057e7d570ef7671f4791461bf48772f2fc474aa6332	9
12	x	2026-01-01 00:00:00.1+00	t	\\xcca687d62377dc280a14cea736d4c11fbf55fadecaa44f7b3935f91cd907f7f62bab588bc7c8f8ba55e43644e1f16fd1	9
\.


COPY public.account_tokens (id, user_id, name, prefix, token_hash, scopes, created_at, expires_at, last_used_at) FROM stdin;
\.

COPY public.api_keys (id, prefix, token_hash, org_id, user_id, name, name_lower, scopes, models, ip_allowlist, rpm_limit, tpm_limit, max_concurrency, created_at, expires_at, last_used_at, revoked_at, max_streams, budget_tokens_day, budget_tokens_month, limit_mode) FROM stdin;
\.

COPY public.audit (seq, at, actor_type, actor_id, actor, action, object_type, object_id, before, after, ip, request_id, user_agent, prev_hash, hash) FROM stdin;
1	1795219804123	user	7	ann�	key.create	key	1	{"name":"ä\\u0000\\"\\\\"}	{"ratio":0.1,"n":1e+21,"none":null}	::1	r	agent� ☃	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xbe416ce661fd6819adef197bb2fb45bfd17e08cf77207b8801fc8ffe775d33d2
\.

COPY public.audit_chain (name, seq, hash) FROM stdin;
anchor	0	\\x0000000000000000000000000000000000000000000000000000000000000000
head	1	\\xbe416ce661fd6819adef197bb2fb45bfd17e08cf77207b8801fc8ffe775d33d2
\.

COPY public.changes (id, n) FROM stdin;
\.

COPY public.chat_messages (id, session_id, role, content, metrics, created_at) FROM stdin;
\.

COPY public.chat_sessions (id, user_id, title, model_name, engine_type, constraints, created_at, updated_at) FROM stdin;
\.

COPY public.jobs (id, kind, object, gateway, state, step, done_bytes, total_bytes, started_at, finished_at, error, log) FROM stdin;
\.

COPY public.meta (key, value) FROM stdin;
\.

COPY public.model_events (id, model_id, at, from_state, to_state, reason, detail) FROM stdin;
\.

COPY public.models (id, name, served_name, task, engine, config, hub_token, archived, deleting, wanted, generation, phase, created_at, updated_at, diagnosis, launched, last_good, apply, starts) FROM stdin;
\.

COPY public.orgs (id, name, name_lower, enabled, created_at, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month) FROM stdin;
1	Acme	acme	t	1795219804123	\N	\N	\N	\N	\N	\N
\.

COPY public.registry (served_name, task, api_key, created_at, urls, upstream_model) FROM stdin;
\.

COPY public.sessions (id_hash, user_id, created_at, expires_at) FROM stdin;
\.

COPY public.supervisor (id, epoch, gateway, name, runtime, machine, since) FROM stdin;
\.

COPY public.usage (id, req_id, created_at, key_id, key_prefix, user_id, org_id, model_name, task, endpoint, stream, prompt_tokens, completion_tokens, cached_tokens, estimated, latency_ms, ttft_ms, status_code, outcome, requests) FROM stdin;
01a1fb70-4fdb-7000-8000-000000000001	req-1	1795219804123	7	gty_Ab000001	\N	1	qwen	generate	/v1/chat/completions	t	12	34	\N	f	56	7	200	ok	1
01a1fb70-4fdb-7000-8000-000000000002	req-2	1795219804123	7	gty_Ab000001	\N	1	qwen	generate	/v1/chat/completions	t	12	34	\N	f	56	7	200	ok	1
\.

COPY public.usage_rollups (id, hours, start_at, requests, sums, times) FROM stdin;
1	1	1795219200000	2	\\x0301047177656e010e0c6774795f41623030303030310100010002c80100043088010000e001041c0004b6df4900	\\x0301380203010702
2	24	1795219200000	2	\\x0301047177656e010e0c6774795f41623030303030310100010002c80100043088010000e001041c0004b6df4900	\\x0301380203010702
\.

COPY public.usage_unrolled (start_at) FROM stdin;
\.

COPY public.users (id, org_id, username, username_lower, password_hash, role, enabled, created_at, last_login_at, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month, models) FROM stdin;
1	1	ada	ada	$argon2id$…	owner	t	1795219804123	\N	\N	\N	\N	\N	\N	\N	\N
\.

SELECT pg_catalog.setval('public.account_tokens_id_seq', 1, false);
SELECT pg_catalog.setval('public.api_keys_id_seq', 1, false);
SELECT pg_catalog.setval('public.chat_messages_id_seq', 1, false);
SELECT pg_catalog.setval('public.jobs_id_seq', 1, false);
SELECT pg_catalog.setval('public.model_events_id_seq', 1, false);
SELECT pg_catalog.setval('public.models_id_seq', 1, false);
SELECT pg_catalog.setval('public.orgs_id_seq', 1, true);
SELECT pg_catalog.setval('public.usage_rollups_id_seq', 2, true);
SELECT pg_catalog.setval('public.users_id_seq', 1, true);


--
-- PostgreSQL database dump complete
--

