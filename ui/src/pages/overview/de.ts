import type { en } from "./en";

const models = (n: number) => (n === 1 ? "1 Modell" : `${n} Modellen`);

export const de = {
  health: {
    none: "Noch kein Modell.",
    allStopped: (n: number) =>
      n === 1 ? "Das einzige Modell ist gestoppt." : `Alle ${n} Modelle sind gestoppt.`,
    serving: (n: number, of: number) =>
      n === of
        ? n === 1
          ? "Das einzige Modell antwortet"
          : `Alle ${n} Modelle antworten`
        : `${n} von ${models(of)} antworten`,
    starting: (n: number) => `${n} im Start`,
    failed: (n: number) => `${n} fehlgeschlagen`,
    upstreams: (n: number) => (n === 1 ? "1 Upstream ist gestört" : `${n} Upstreams sind gestört`),
    routes: (n: number) =>
      n === 1 ? "1 Route der Registry antwortet" : `${n} Routen der Registry antworten`,
  },
  traffic: {
    title: "Verkehr",
    note: "letzte Minute, live",
    requests: "Anfragen",
    output: "Erzeugte Tokens",
    input: "Prompt-Tokens",
    latency: "Latenz p50",
    ttft: "TTFT p50",
    errors: "Fehler, letzte Stunde",
    perSecond: (value: string) => `${value}/s`,
    p95: (value: string) => `p95 ${value}`,
    active: (n: string) => `${n} unterwegs`,
    ofRequests: (errors: string, requests: string) => `${errors} von ${requests} Anfragen`,
    noRequests: "keine Anfragen",
    label: (name: string, value: string) => `${name}: ${value}`,
  },
  models: {
    title: "Modelle",
    all: "Alle Modelle",
    name: "Modellname",
    state: "Zustand",
    engine: "Engine",
    running: "Unterwegs",
    cache: "KV-Cache",
    waiting: (n: string) => `+${n} wartend`,
  },
  failures: {
    title: "Neueste Fehler",
    none: "Kein Fehler in den letzten 24 Stunden.",
    model: (name: string) => `${name} ist fehlgeschlagen`,
    request: (status: number, model: string) => `${status} von ${model}`,
    noModel: "eine Anfrage ohne Modell",
    times: (n: string) => `${n}-mal`,
    logs: "Protokoll",
    usage: "Anfragen",
    all: "Alle fehlgeschlagenen Anfragen",
    see: (what: string) => `Als gesehen markieren: ${what}`,
    seeAll: "Alle als gesehen markieren",
    noneNew: "Kein neuer Fehler.",
    showSeen: (n: number) => (n === 1 ? "1 gesehenen Fehler zeigen" : `${n} gesehene Fehler zeigen`),
    hideSeen: "Gesehenes ausblenden",
  },
  machine: {
    title: "Maschine",
    more: "System",
    cpu: "CPU",
    memory: "Speicher",
    disk: (holds: string) => `Datenträger (${holds})`,
    holds: { data: "Daten", models: "Modelle", hub_cache: "Hub-Cache" },
    of: (used: string, all: string) => `${used} von ${all}`,
    full: (used: string, share: string) => `${used} · ${share} voll`,
    cores: (n: string) => `${n} Kerne`,
    gpu: (index: number, name: string) => `GPU ${index} · ${name}`,
    otherProcesses: "Andere Prozesse",
    driver: "Treiber und nicht Gemeldetes",
    noGpu: "Keine GPU gefunden.",
    unknownMemory: "Der Treiber meldet ihren Speicher nicht.",
  },
  checklist: {
    title: "Von hier bis zur ersten Antwort",
    done: "Erledigt",
    open: "Offen",
    model: "Ein Modell hinzufügen und starten",
    modelText: "Aus einer Datei im Modellordner, einem Ordner oder einem Repository des Hubs.",
    modelAction: "Modell hinzufügen",
    key: "Einen Schlüssel erstellen",
    keyText: "Einen Schlüssel schickt der Client mit. Er lässt sich auf Modelle begrenzen und hat Budgets.",
    keyAction: "Schlüssel erstellen",
    request: "Die erste Anfrage schicken",
    requestText: "Mit dem Schlüssel statt YOUR_KEY. Dieser Schritt hakt sich ab, wenn die Anfrage ankommt.",
  },
  own: {
    models: "Modelle, die Sie aufrufen dürfen",
    noModels:
      "Sie dürfen noch kein Modell aufrufen. Ein Verwalter kann eines starten oder Ihnen Zugang geben.",
    callable: "Aufrufbar",
    notCallable: "Läuft nicht",
    requests: "Ihre neuesten Anfragen",
    noRequests: "Keine Anfrage in den letzten 24 Stunden.",
    time: "Zeit",
    model: "Modell",
    outcome: "Status",
    tokens: "Tokens",
    latency: "Latenz",
    try: "Ausprobieren",
  },
} satisfies typeof en;
