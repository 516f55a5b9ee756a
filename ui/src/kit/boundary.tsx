import { Component, type ReactNode } from "react";

/**
 * Shows `instead` where drawing `children` fails, so that a failure in one part leaves the rest of the page as it is. It tries again
 * when `of` changes.
 */
export class Boundary extends Component<
  { of: unknown; instead: ReactNode; children: ReactNode },
  { failed: boolean; of: unknown }
> {
  override state = { failed: false, of: this.props.of };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  static getDerivedStateFromProps(props: { of: unknown }, state: { of: unknown }) {
    return props.of === state.of ? null : { failed: false, of: props.of };
  }

  override render() {
    return this.state.failed ? this.props.instead : this.props.children;
  }
}
