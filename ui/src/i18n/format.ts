export type Language = "en" | "de";

const THIN = "\u202f";
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export type Instant = Date | string | number;
const toDate = (at: Instant): Date => (at instanceof Date ? at : new Date(at));

/** Every way in which numbers, sizes and times are written, in one language. `-` stands for what is not known. */
export function makeFormat(language: Language, timeZone?: string) {
  // English dates here are ISO-like and read the same in Britain and in America.
  const locale = language === "de" ? "de-DE" : "en-GB";
  const cache = new Map<string, Intl.NumberFormat>();
  const plain = (value: number, most: number, least = 0): string => {
    const key = `${most} ${least}`;
    let format = cache.get(key);
    if (!format) {
      const grouping = language === "de" ? "de-DE" : "en-US";
      format = new Intl.NumberFormat(grouping, { maximumFractionDigits: most, minimumFractionDigits: least });
      cache.set(key, format);
    }
    return format.format(value);
  };
  /** Three significant digits, as in 1.24, 12.4, 124. */
  const short = (value: number): string => {
    const size = Math.abs(value);
    return plain(value, size >= 99.95 || Number.isInteger(value) ? 0 : size >= 9.995 ? 1 : 2);
  };
  // Each is made when it is first used: all together take 20 ms of every start.
  const dates = (options: Intl.DateTimeFormatOptions) => {
    let made: Intl.DateTimeFormat | undefined;
    return (at: Instant): string => {
      made ??= new Intl.DateTimeFormat(locale, { timeZone, ...options });
      return made.format(toDate(at));
    };
  };
  const day = { year: "numeric", month: "short", day: "numeric" } as const;
  const minute = { hour: "2-digit", minute: "2-digit" } as const;
  const date = dates(day);
  let words: Intl.RelativeTimeFormat | undefined;
  const relative = (value: number, unit: Intl.RelativeTimeFormatUnit): string => {
    words ??= new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "long" });
    return words.format(value, unit);
  };

  const scaled = (value: number, step: number, units: string[]): string => {
    let at = 0;
    let rest = value;
    // 999.6 would round to 1000 of its unit: that is 1 of the next.
    while (Math.abs(rest) >= step * 0.9995 && at < units.length - 1) {
      rest /= step;
      at += 1;
    }
    return units[at] ? `${short(rest)}${THIN}${units[at]}` : short(rest);
  };

  const format = {
    language,
    /** 1,234,567 */
    integer: (value: number): string => plain(value, 0),
    /** A number with at most `digits` decimals. */
    decimal: (value: number, digits = 2): string => plain(value, digits),
    /** 1.24 M, for counts and tokens. */
    compact: (value: number): string => scaled(value, 1000, ["", "k", "M", "G", "T"]),
    /** 3.1 GiB, from bytes. */
    bytes: (value: number): string => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
    /** 3.1 GiB, from MiB, as the API gives memory and disks. */
    mebibytes: (value: number): string => format.bytes(value * 1024 * 1024),
    /** 12.5 MB/s, from bytes per second. */
    byteRate: (value: number): string => `${scaled(value, 1000, ["B", "kB", "MB", "GB"])}/s`,
    /** 42 %, from 42. */
    percent: (value: number): string => `${short(value)}${THIN}%`,
    /** 850 ms, 1.24 s, 2 min 5 s, 3 h 12 min, 2 d 4 h, from milliseconds. */
    duration: (ms: number): string => {
      if (ms < 1000) return `${plain(ms, ms < 10 && !Number.isInteger(ms) ? 1 : 0)}${THIN}ms`;
      if (ms < MINUTE) return `${short(ms / 1000)}${THIN}s`;
      const two = (big: number, bigUnit: string, small: number, smallUnit: string) => {
        const [whole, rest] = [Math.floor(ms / big), Math.floor((ms % big) / small)];
        return `${whole}${THIN}${bigUnit}${rest > 0 ? ` ${rest}${THIN}${smallUnit}` : ""}`;
      };
      if (ms < HOUR) return two(MINUTE, "min", 1000, "s");
      if (ms < DAY) return two(HOUR, "h", MINUTE, "min");
      return two(DAY, "d", HOUR, "h");
    },
    /** The exact time, in the browser's zone. */
    dateTime: dates({ ...day, ...minute, second: "2-digit" }),
    dateMinute: dates({ ...day, ...minute }),
    date,
    time: dates({ ...minute, second: "2-digit" }),
    /** "3 minutes ago", "in 2 days". */
    relative: (at: Instant, now: number): string => {
      const ms = toDate(at).getTime() - now;
      const size = Math.abs(ms);
      // Pages count by the minute: what has just happened lies a few seconds ahead of theirs.
      if (size < 10_000 || (ms > 0 && ms < MINUTE)) return relative(0, "second");
      if (size < MINUTE) return relative(Math.trunc(ms / 1000), "second");
      if (size < HOUR) return relative(Math.trunc(ms / MINUTE), "minute");
      if (size < DAY) return relative(Math.trunc(ms / HOUR), "hour");
      if (size < 30 * DAY) return relative(Math.trunc(ms / DAY), "day");
      return date(at);
    },
    /** "a, b and c" */
    list: (words: string[]): string => new Intl.ListFormat(locale, { type: "conjunction" }).format(words),
  };
  return format;
}

export type Format = ReturnType<typeof makeFormat>;
