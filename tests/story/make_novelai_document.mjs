// Makes fixtures/novelai_document.story: a story whose text is packed as NovelAI packs it.
//
//     npm install msgpackr@2 && node make_novelai_document.mjs > fixtures/novelai_document.story
//
// The extensions and the fields are those of a story that NovelAI wrote; the text is ours.

import { Packr, addExtension } from "msgpackr";

class Packed {
  constructor(fields) {
    Object.assign(this, fields);
  }
}
class Document extends Packed {}
class History extends Packed {}
class HistoryNode extends Packed {}
class SectionDiff {
  constructor(diff) {
    this.diff = diff;
  }
}
class TextDiff extends Packed {}

const plain = (value) => ({ ...value });
addExtension({ Class: Document, type: 20, write: plain, read: plain });
addExtension({ Class: History, type: 30, write: plain, read: plain });
addExtension({ Class: HistoryNode, type: 31, write: plain, read: plain });
addExtension({ Class: SectionDiff, type: 40, write: (value) => value.diff, read: plain });
addExtension({ Class: TextDiff, type: 41, write: plain, read: plain });

const USER = 1, AI = 2, EDIT = 3, INSTRUCTION = 10;
const BIG = 2 ** 40; // ids are too large for 32 bits, and are packed as floats

const section = (text, ...origins) => ({
  type: 1,
  text,
  meta: new Map([
    [1, origins.length > 1 ? origins : [{ position: 0, data: origins[0] ?? AI, length: text.length }]],
    [2, []],
  ]),
  source: origins[0] === INSTRUCTION ? 10 : undefined,
});
const create = (text, after, origin = AI) => ({ type: 0, section: section(text, origin), after });
const update = (parts, origins) => ({
  type: 1,
  diff: new SectionDiff(new TextDiff({ parts, metas: new Map(origins ? [[1, origins]] : []), source: 0 })),
});

const nodes = new Map();
const point = (id, parent, changes, seconds = id) => {
  nodes.set(BIG + id, new HistoryNode({
    id: BIG + id,
    parent: parent === undefined ? undefined : BIG + parent,
    children: new Set(),
    route: undefined,
    changes: new Map(changes),
    date: new Date(1700000000000 + 1000 * seconds),
    genPosition: undefined,
  }));
  if (parent !== undefined) nodes.get(BIG + parent).children.add(BIG + id);
};

const A = BIG + 101, B = BIG + 102, C = BIG + 103, NOTE = BIG + 99;
const first = "The ferry was late.";
const second = "“It is always late,” said Ada 🏮, and the lamps came on.";
const third = "She counted the bells.";
const lamps = second.indexOf("lamps");
point(1, undefined, []);
point(2, 1, [[NOTE, create("Write of a ferry.", 0, INSTRUCTION)], [A, create(first, NOTE, USER)]]);
point(3, 2, [[B, create(second, A)]]);
point(4, 2, [[BIG + 201, create("Nobody came.", A)]]);
point(5, 2, [[A, update([{ from: first.length, insert: " It did not matter.", delete: "" }],
  [{ index: 1, position: first.length, data: AI, length: 19 }])]]);
point(6, 3, [[C, create(third, B)]]);
point(7, 3, [[BIG + 202, create("She counted the waves.", B)], [BIG + 203, create("There were nine.", BIG + 202)]]);
point(8, 6, []); // undone before anything was written
point(9, 6, [[B, update([{ from: lamps, insert: "lanterns", delete: "lamps" }],
  [{ index: 0, position: 0, data: 0, length: lamps - second.length },
   { index: 1, position: lamps, data: EDIT, length: 8 },
   { index: 2, position: lamps + 8, data: AI, length: second.length - lamps - 5 }])]]);
point(10, 9, [[BIG + 301, create("Then the engine stopped.", C)]]); // undone

const lanterns = second.replace("lamps", "lanterns");
const document = new Document({
  sections: new Map([
    [NOTE, section("Write of a ferry.", INSTRUCTION)],
    [A, section(first, USER)],
    [B, section(lanterns, { position: 0, data: AI, length: lamps }, { data: EDIT, length: 8, position: lamps },
      { data: AI, length: lanterns.length - lamps - 8, position: lamps + 8 })],
    [C, section(third, AI)],
  ]),
  order: [NOTE, A, B, C],
  history: new History({ root: BIG + 1, current: BIG + 9, nodes }),
  dirtySections: new Map([[C, update([{ from: third.length, insert: " Nine.", delete: "" }],
    [{ index: 1, position: third.length, data: USER, length: 6 }])]]),
  step: 7,
});

const packr = new Packr({ bundleStrings: true, moreTypes: true, structuredClone: true, mapsAsObjects: false });
const context = (text, insertionPosition, budgetPriority) => ({
  text,
  contextConfig: {
    prefix: "", suffix: "\n", tokenBudget: 1, reservedTokens: 0, budgetPriority, trimDirection: "trimBottom",
    insertionType: "newline", maximumTrimType: "sentence", insertionPosition,
  },
});
console.log(JSON.stringify({
  storyContainerVersion: 1,
  metadata: {
    storyMetadataVersion: 1, id: "1f", title: "The late ferry", description: "A river, at night.",
    textPreview: "The ferry was late.", isTA: false, favorite: false, tags: ["river", "night"],
    createdAt: 1700000000000, lastUpdatedAt: 1700000099000, isModified: true, hasDocument: true,
  },
  content: {
    storyContentVersion: 6,
    settings: { parameters: { temperature: 1.25, max_length: 150 }, preset: "default", trimResponses: true,
      banBrackets: true, prefix: "vanilla", model: "kayra-v1" },
    document: packr.pack(document).toString("base64"),
    context: [context("A river between two towns.", 0, 800), context("[ Style: plain ]", -4, -400)],
    lorebook: {
      lorebookVersion: 6,
      entries: [
        { ...context("The ferry is called Patience.", -1, 400), lastUpdatedAt: 1700000000001,
          displayName: "Ferry", id: "e1", keys: ["ferry", "Patience"], searchRange: 1000, enabled: true,
          forceActivation: false, keyRelative: false, nonStoryActivatable: false, category: "c1",
          loreBiasGroups: [{ phrases: ["ferry"], bias: 0.1, enabled: true }] },
        { ...context("Ada is a clerk.", -1, 400), displayName: "Ada", id: "e2", keys: ["Ada"],
          searchRange: 1000, enabled: true, forceActivation: false, category: "c2" },
      ],
      settings: { orderByKeyLocations: false },
      categories: [
        { name: "Boats", id: "c1", enabled: true, createSubcontext: false, useCategoryDefaults: false },
        { name: "People", id: "c2", enabled: false },
      ],
      order: ["c1", "c2"],
    },
    storyContextConfig: { prefix: "", suffix: "", tokenBudget: 1, trimDirection: "trimTop" },
    ephemeralContext: [{ text: "It is raining.", startingStep: 3, delay: 0, duration: 1, repeat: false }],
    contextDefaults: { ephemeralDefaults: [], loreDefaults: [] },
    settingsDirty: false,
    phraseBiasGroups: [{ phrases: [" rain"], bias: -0.2, enabled: true }],
    bannedSequenceGroups: [{ sequences: ["suddenly"], enabled: true }],
    messageSettings: {},
  },
}, null, 1));
