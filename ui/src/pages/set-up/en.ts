export const en = {
  lead: "This gateway has no owner yet. The first owner can do everything, and makes the accounts of all others.",
  organisation: "Organisation",
  organisationHelp: "Users, keys and budgets belong to one. Its name can be changed later.",
  passwordHelp: "8 characters or more. A long sentence is harder to guess than a short word with signs.",
  strength: { label: "Strength of the password", weak: "weak", fair: "fair", good: "good", strong: "strong" },
  token: "Set-up token",
  tokenHelp: "It is in the set-up link that the gateway printed when it started.",
  create: "Create the owner",
  noOwner: "Nobody can sign in until the first owner is made. Do one of these:",
  openLink:
    "Open the set-up link that the gateway printed when it started. Where it runs as a service, the link is in its log:",
  orCommand: "On the gateway’s machine, as the gateway’s user, run:",
  lookAgain: "Look again",
  used: "This gateway has an owner already: the set-up link was used.",
  noCookie: "The owner is made, but the browser kept no session.",
  signInNow: "Go to the sign-in",
};
