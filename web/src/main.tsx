// The page's frame: which page is shown, the server's state above it, and the dialog that asks for a key.
import { signal } from "@preact/signals";
import { type ComponentType, render, type VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ChatPage } from "./chat/page";
import { keyWanted } from "./http";
import { language, t, type Word } from "./i18n";
import { Header } from "./parts/header";
import { KeyDialog } from "./parts/key_dialog";
import { StateBanner } from "./parts/state";
import { watchServer } from "./server";
import "./style/base.css";
import "./style/chat.css";
import "./style/pages.css";

type Loaded = () => Promise<ComponentType>;

/** A part of the page that is fetched when it is first shown. */
function later(load: Loaded): ComponentType {
  let ready: ComponentType | null = null;
  return function Later(): VNode {
    const [Page, setPage] = useState<ComponentType | null>(() => ready);
    useEffect(() => {
      if (!ready)
        load().then((page) => {
          ready = page;
          setPage(() => page);
        });
    }, []);
    return Page ? <Page /> : <p class="quiet">{t("loadingPage")}</p>;
  };
}

export interface PageEntry {
  path: string;
  word: Word;
  Page: ComponentType;
}

const pages: PageEntry[] = [
  { path: "chat", word: "chat", Page: ChatPage },
  {
    path: "dashboard",
    word: "dashboard",
    Page: later(() => import("./dashboard/page").then((m) => m.DashboardPage)),
  },
  {
    path: "requests",
    word: "requests",
    Page: later(() => import("./requests/page").then((m) => m.RequestsPage)),
  },
  {
    path: "models",
    word: "models",
    Page: later(() => import("./models/page").then((m) => m.ModelsPage)),
  },
  { path: "keys", word: "keys", Page: later(() => import("./keys/page").then((m) => m.KeysPage)) },
  {
    path: "settings",
    word: "settings",
    Page: later(() => import("./settings/page").then((m) => m.SettingsPage)),
  },
  { path: "doctor", word: "doctor", Page: later(() => import("./doctor/page").then((m) => m.DoctorPage)) },
];

const pathOf = () => location.hash.replace(/^#\/?/, "").split("?")[0] ?? "";
const path = signal(pathOf());

function App(): VNode {
  useEffect(watchServer, []);
  useEffect(() => {
    const change = () => {
      path.value = pathOf();
      document.getElementById("main")?.focus();
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  const shown = pages.find((page) => page.path === path.value) ?? pages[0];
  useEffect(() => {
    document.documentElement.lang = language.value;
    document.title = `${shown ? t(shown.word) : ""} · HeteroServe`;
  }, [language.value, shown]);
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        {t("skip")}
      </button>
      <Header pages={pages} shown={shown?.path ?? ""} />
      <main id="main" tabIndex={-1}>
        <StateBanner />
        {shown && <shown.Page />}
      </main>
      {keyWanted.value && <KeyDialog />}
    </>
  );
}

const place = document.getElementById("app");
if (place) render(<App />, place);
