import type { Body, Role, User } from "@/api/types";
import { changedLimits, type Limits, limitsOf, NO_LIMITS } from "@/kit/limits/limits";

/** What the form of a user holds. */
export type UserValues = {
  username: string;
  /** A new user gets no password, but a link to set one. */
  invite: boolean;
  password: string;
  role: Role;
  /** `null`: the organisation of the user who makes this one. */
  org_id: number | null;
  models: string[];
  limits: Limits;
};

export const NEW_USER: UserValues = {
  username: "",
  invite: false,
  password: "",
  role: "user",
  org_id: null,
  models: [],
  limits: NO_LIMITS,
};

export function valuesOf(user: User): UserValues {
  const { username, role, org_id } = user;
  return {
    username,
    invite: false,
    password: "",
    role,
    org_id,
    models: user.models ?? [],
    limits: limitsOf(user),
  };
}

const models = (names: string[]) => (names.length > 0 ? names : null);

/** Returns the body that makes the user. `bounds`: whether one may set limits and models. */
export function bodyOf(values: UserValues, bounds: boolean): Body<"createUser"> {
  const { username, invite, password, role, org_id, limits } = values;
  const basics = {
    username: username.trim(),
    ...(invite ? {} : { password }),
    role,
    ...(org_id === null ? {} : { org_id }),
  };
  return bounds ? { ...basics, models: models(values.models), ...limits } : basics;
}

/** Returns only what differs from the record, so that what somebody else changed meanwhile stays. */
export function changesOf(values: UserValues, user: User, bounds: boolean): Body<"changeUser"> {
  const { username, password, role, org_id, limits } = values;
  const same = JSON.stringify(values.models) === JSON.stringify(user.models ?? []);
  return {
    ...(username.trim() === user.username ? {} : { username: username.trim() }),
    ...(password === "" ? {} : { password }),
    ...(role === user.role ? {} : { role }),
    ...(org_id === user.org_id || org_id === null ? {} : { org_id }),
    ...(bounds && !same ? { models: models(values.models) } : {}),
    ...(bounds ? changedLimits(limits, user) : {}),
  };
}

const LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/** Returns a password of 20 letters and digits that can't be mistaken for each other: more than 115 bits. */
export function newPassword(): string {
  const most = 256 - (256 % LETTERS.length);
  let made = "";
  while (made.length < 20) {
    for (const byte of crypto.getRandomValues(new Uint8Array(32)))
      if (byte < most && made.length < 20) made += LETTERS[byte % LETTERS.length];
  }
  return made;
}
