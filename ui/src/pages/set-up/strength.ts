export type Strength = "weak" | "fair" | "good" | "strong";

/** Guesses how hard a password is to guess, by its length and by how few different characters it has. It forbids nothing. */
export function strengthOf(password: string): Strength {
  const different = new Set(password).size;
  const bits = Math.min(password.length, different * 1.6) * Math.log2(alphabetOf(password));
  if (password.length < 8 || bits < 40) return "weak";
  return bits < 56 ? "fair" : bits < 80 ? "good" : "strong";
}

function alphabetOf(password: string): number {
  const classes: [RegExp, number][] = [
    [/[a-z]/, 26],
    [/[A-Z]/, 26],
    [/[0-9]/, 10],
    [/[^a-zA-Z0-9]/, 24],
  ];
  return Math.max(
    2,
    classes.reduce((sum, [has, size]) => sum + (has.test(password) ? size : 0), 0),
  );
}
