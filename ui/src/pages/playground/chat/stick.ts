import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

const NEAR = 48;

/**
 * Keeps a list that grows at its end in sight, until its reader scrolls up; at the end it holds on again. `content` is
 * what grows inside of `box`.
 */
export function useStick(box: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>) {
  const [stuck, setStuck] = useState(true);
  const held = useRef(true);
  const set = useCallback((to: boolean) => {
    held.current = to;
    setStuck(to);
  }, []);
  const toEnd = useCallback(() => {
    set(true);
    const it = box.current;
    if (it) it.scrollTop = it.scrollHeight;
  }, [box, set]);
  useLayoutEffect(() => {
    const it = box.current;
    if (it) it.scrollTop = it.scrollHeight;
  }, [box]);
  useEffect(() => {
    const it = box.current;
    const inside = content.current;
    if (!it || !inside) return;
    let before = it.scrollTop;
    const onScroll = () => {
      const gap = it.scrollHeight - it.scrollTop - it.clientHeight;
      // Growth moves nothing up: only a reader does.
      if (it.scrollTop < before - 1 && gap > NEAR) set(false);
      else if (gap <= NEAR) set(true);
      before = it.scrollTop;
    };
    // The wheel comes before its scrolling: an answer that grows in between must not pull back.
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0 && it.scrollHeight > it.clientHeight) set(false);
    };
    const observer = new ResizeObserver(() => {
      if (held.current) it.scrollTop = it.scrollHeight;
    });
    observer.observe(inside);
    observer.observe(it);
    it.addEventListener("scroll", onScroll, { passive: true });
    it.addEventListener("wheel", onWheel, { passive: true });
    return () => {
      observer.disconnect();
      it.removeEventListener("scroll", onScroll);
      it.removeEventListener("wheel", onWheel);
    };
  }, [box, content, set]);
  return { stuck, toEnd };
}
