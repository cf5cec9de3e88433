// Proves that events come out whole however the network cuts them.
import { expect, test } from "vitest";
import { EventSplitter } from "./sse";

const stream = 'data: {"a":1}\n\n: keep-alive\n\ndata: one\r\ndata:two\r\n\r\nevent: x\n\ndata: [DONE]\n\n';

test.each([1, 2, 3, 7, 1000])("pieces of %i characters give the same events", (size) => {
  const splitter = new EventSplitter();
  const found: string[] = [];
  for (let at = 0; at < stream.length; at += size) found.push(...splitter.push(stream.slice(at, at + size)));
  expect(found).toEqual(['{"a":1}', "one\ntwo", "[DONE]"]);
});

test("an event without its end is not told", () => {
  expect(new EventSplitter().push("data: half")).toEqual([]);
});
