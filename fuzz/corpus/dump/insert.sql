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


INSERT INTO public.usage_unrolled (start_at) VALUES (1), (-2);
INSERT INTO public.meta (key, value) VALUES ('a''b', 'c
\restrict x');
