export const en = {
  title: "Set your password",
  lead: "An administrator made this link for you. Choose a password; you are signed in with it at once.",
  passwordHelp: "8 characters or more. A long sentence is harder to guess than a short word with signs.",
  set: "Set the password",
  ended: "This link is not valid any more.",
  endedText:
    "It was used, a newer one was made, or its time is over. Ask an administrator for a new link, or sign in if you have a password already.",
  noCookie: "Your password is set, but the browser kept no session.",
  signIn: "Go to the sign-in",
};
