import type { Answer, Model } from "@/api/types";
import type { ShownImage } from "./image-table";

type Images = Answer<"getContainerImages">;
export type Shown = { engines: (ShownImage & { engine: string })[]; models: ShownImage[] };

/** Every image once, with the models that start with it: those without an image of their own start with their engine's. */
export function shownOf(images: Images, models: Model[]): Shown {
  const named = new Set(images.models.flatMap((it) => it.models));
  const engines = Object.entries(images.engines).map(([engine, it]) => {
    const own = images.models.find((of) => of.image === it.image)?.models ?? [];
    const others = models.filter((of) => of.engine_type === engine && !of.archived && !named.has(of.id));
    return { ...it, engine, models: [...own, ...others.map((of) => of.id)] };
  });
  const known = new Set(engines.map((it) => it.image));
  return { engines, models: images.models.filter((it) => !known.has(it.image)) };
}

/** What models start with and is not on the machine; without a model, what the engines are. */
export function missingOf({ engines, models }: Shown): string[] {
  const all = [...engines, ...models];
  const used = all.filter((it) => it.models.length > 0);
  return (used.length > 0 ? used : all).filter((it) => !it.cached).map((it) => it.image);
}
