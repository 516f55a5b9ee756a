import type { en } from "./en";

export const de = {
  lead: "Dieses Gateway hat noch keinen Eigentümer. Der erste Eigentümer darf alles und legt die Konten aller anderen an.",
  organisation: "Organisation",
  organisationHelp: "Benutzer, Schlüssel und Budgets gehören zu einer. Ihr Name lässt sich später ändern.",
  passwordHelp:
    "8 Zeichen oder mehr. Ein langer Satz ist schwerer zu erraten als ein kurzes Wort mit Zeichen.",
  strength: { label: "Stärke des Passworts", weak: "schwach", fair: "mäßig", good: "gut", strong: "stark" },
  token: "Einrichtungs-Token",
  tokenHelp: "Es steht in dem Einrichtungs-Link, den das Gateway beim Start ausgegeben hat.",
  create: "Eigentümer anlegen",
  noOwner: "Niemand kann sich anmelden, bevor es den ersten Eigentümer gibt. Tun Sie eines davon:",
  openLink:
    "Öffnen Sie den Einrichtungs-Link, den das Gateway beim Start ausgegeben hat. Läuft es als Dienst, steht der Link in dessen Protokoll:",
  orCommand: "Auf der Maschine des Gateways, als dessen Benutzer:",
  lookAgain: "Noch einmal nachsehen",
  used: "Dieses Gateway hat schon einen Eigentümer: Der Einrichtungs-Link wurde benutzt.",
  noCookie: "Der Eigentümer ist angelegt, aber der Browser hat keine Sitzung behalten.",
  signInNow: "Zur Anmeldung",
} satisfies typeof en;
