import { expect, it } from "vitest";
import type { Answer } from "@/api/types";
import { courseOf, gpuCourse } from "./course";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString();
const points = (...seconds: number[]) => seconds.map((second) => ({ ts: at(second), value: second }));
const trends = (change: Partial<Answer<"getHostTrends">>): Answer<"getHostTrends"> => ({
  interval_sec: 10,
  cpu_util_pct: [],
  mem_used_mb: [],
  disk_used_pct: [],
  net_rx_bps: [],
  net_tx_bps: [],
  gpu: {},
  ...change,
});

it("puts series on common times, with gaps where one has no sample", () => {
  const given = trends({ cpu_util_pct: points(0, 10, 20), mem_used_mb: points(10, 20) });
  const course = courseOf(given);
  expect(course.times).toHaveLength(3);
  expect(course.of(given.cpu_util_pct)).toEqual([0, 10, 20]);
  expect(course.of(given.mem_used_mb)).toEqual([null, 10, 20]);
});

it("shows a time without samples as a gap, and not as a line", () => {
  const given = trends({ cpu_util_pct: points(0, 10, 3600) });
  expect(courseOf(given).of(given.cpu_util_pct)).toEqual([0, 10, null, 3600]);
});

it("keeps what is in the range", () => {
  const given = trends({ cpu_util_pct: points(0, 10, 20, 30) });
  const course = courseOf(given, Date.parse(at(10)), Date.parse(at(20)));
  expect(course.of(given.cpu_util_pct)).toEqual([10, 20]);
});

it("leaves out a figure that no GPU reports", () => {
  const gpu = { name: "x", mem_total_mb: 1, mem_used_mb: 1, util_pct: 1, power_w: null };
  const samples = [{ at: 1, gpus: [{ ...gpu, index: 0, temperature_c: 40 }] }];
  expect(gpuCourse(samples, (it) => it.temperature_c)).toEqual([{ index: 0, values: [40] }]);
  expect(gpuCourse(samples, (it) => it.power_w)).toEqual([]);
});
