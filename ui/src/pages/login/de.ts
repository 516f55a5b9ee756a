import type { en } from "./en";

export const de = {
  wrong: "Der Benutzername oder das Passwort ist falsch.",
  noCookieTitle: "Sie sind angemeldet, aber der Browser hat keine Sitzung behalten.",
  insecure:
    "Diese Seite kam über einfaches HTTP, und das Gateway kennzeichnet sein Sitzungs-Cookie als „secure“: Browser nehmen es dann nur über HTTPS an. Öffnen Sie das Gateway mit https://, oder setzen Sie dort SESSION_COOKIE_SECURE=false und starten Sie es neu.",
  blocked:
    "Der Browser lehnt Cookies für diese Adresse anscheinend ab. Erlauben Sie sie und melden Sie sich erneut an.",
  help: "Passwort vergessen? Ein Verwalter kann Ihnen unter „Benutzer“ einen Link zu einem neuen erstellen. Auf der Maschine des Gateways setzt `gantry owner reset-password` das eines Eigentümers.",
} satisfies typeof en;
