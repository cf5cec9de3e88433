// A table in a box of its own, with its heads in words.
import type { ComponentChildren, VNode } from "preact";
import { t, type Word } from "../i18n";
import { Scroller } from "./scroller";

interface Props {
  label: string;
  heads: Word[];
  id?: string;
  children: ComponentChildren;
}

export function Table({ label, heads, id, children }: Props): VNode {
  return (
    <Scroller label={label} panel>
      <table id={id}>
        <thead>
          <tr>
            {heads.map((word) => (
              <th key={word} scope="col">
                {t(word)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </Scroller>
  );
}
