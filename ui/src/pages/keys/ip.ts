const OCTET = /^(0|[1-9]\d{0,2})$/;

function isIpv4(text: string): boolean {
  const parts = text.split(".");
  return parts.length === 4 && parts.every((it) => OCTET.test(it) && Number(it) <= 255);
}

/** Returns how many groups of 16 bits a part of an IPv6 address has, or `null` if it is none. */
function groups(text: string, mayEndInIpv4: boolean): number | null {
  if (text === "") return 0;
  const parts = text.split(":");
  let count = 0;
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(part)) count += 1;
    else if (mayEndInIpv4 && index === parts.length - 1 && isIpv4(part)) count += 2;
    else return null;
  }
  return count;
}

function isIpv6(text: string): boolean {
  const halves = text.split("::");
  const [first = "", second] = halves;
  if (halves.length > 2) return false;
  if (second === undefined) return groups(first, true) === 8;
  const [before, after] = [groups(first, false), groups(second, true)];
  return before !== null && after !== null && before + after <= 7;
}

/** Whether a text is an IP address or a CIDR range, as the gateway reads them. */
export function isIpRange(text: string): boolean {
  const [address = "", prefix, ...rest] = text.split("/");
  if (rest.length > 0) return false;
  const most = isIpv4(address) ? 32 : isIpv6(address) ? 128 : null;
  if (most === null) return false;
  return prefix === undefined || (OCTET.test(prefix) && Number(prefix) <= most);
}
