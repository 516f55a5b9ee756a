import type { en } from "./en";

export const de = {
  title: "Passwort setzen",
  lead: "Ein Verwalter hat diesen Link für Sie erstellt. Wählen Sie ein Passwort; Sie sind damit sofort angemeldet.",
  passwordHelp:
    "8 Zeichen oder mehr. Ein langer Satz ist schwerer zu erraten als ein kurzes Wort mit Zeichen.",
  set: "Passwort setzen",
  ended: "Dieser Link ist nicht mehr gültig.",
  endedText:
    "Er wurde benutzt, es gibt einen neueren, oder seine Zeit ist um. Bitten Sie einen Verwalter um einen neuen Link, oder melden Sie sich an, wenn Sie schon ein Passwort haben.",
  noCookie: "Ihr Passwort ist gesetzt, aber der Browser hat keine Sitzung behalten.",
  signIn: "Zur Anmeldung",
} satisfies typeof en;
