export const en = {
  wrong: "The user name or the password is wrong.",
  noCookieTitle: "You are signed in, but the browser kept no session.",
  insecure:
    "This page came over plain HTTP, and the gateway marks its session cookie as “secure”, which browsers take over HTTPS only. Open the gateway with https://, or set SESSION_COOKIE_SECURE=false on it and restart it.",
  blocked: "The browser seems to refuse cookies for this address. Allow them for it, then sign in again.",
  help: "Forgot your password? An administrator can make you a link to a new one under Users. On the gateway’s machine, `gantry owner reset-password` sets that of an owner.",
};
