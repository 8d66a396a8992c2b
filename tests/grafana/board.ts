// What a dashboard file may hold: Grafana's own types, as JSON writes them.
import type * as schema from "@grafana/schema";
import type * as barGauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen.d.ts";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen.d.ts";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen.d.ts";
import type * as statusHistory from "@grafana/schema/dist/esm/raw/composable/statushistory/panelcfg/x/StatusHistoryPanelCfg_types.gen.d.ts";
import type * as timeSeries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen.d.ts";

// TypeScript takes no literal for an enum of strings, which is what JSON has: the
// same type with the enums' values in their place.
type Plain<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends readonly (infer Element)[]
      ? Plain<Element>[]
      : T extends object
        ? { [Key in keyof T]: Plain<T[Key]> }
        : T;

// Ids of @grafana/data's valueFormats, which the schema does not know.
type Unit =
  | "none" | "s" | "bytes" | "Bps" | "percentunit" | "flops"
  | "reqps" | "ops" | "cps" | "rowsps";

// Names of Grafana's reducers and palettes, likewise.
type Reducer = "lastNotNull" | "mean" | "max" | "min";
type Colour = "text" | "transparent" | "green" | "orange" | "red";

// A query of Grafana's data source for Prometheus, whose types are not in the
// schema.
interface PrometheusQuery extends Plain<schema.DataQuery> {
  refId: string;
  expr: string;
  legendFormat: string;
  format?: "time_series" | "table" | "heatmap";
  instant?: boolean;
}

interface Thresholds extends Omit<Plain<schema.ThresholdsConfig>, "steps"> {
  steps: { color: Colour; value: number | null }[];
}

interface Defaults<Custom>
  extends Omit<Plain<schema.FieldConfig>, "custom" | "unit" | "thresholds"> {
  unit?: Unit;
  thresholds?: Thresholds;
  // Grafana fills in what is left out.
  custom?: Partial<Plain<Custom>>;
}

interface PanelOf<Type extends string, Options, Custom>
  extends Omit<Plain<schema.Panel>,
    "type" | "options" | "fieldConfig" | "targets"> {
  id: number;
  type: Type;
  title: string;
  description: string;
  gridPos: Plain<schema.Panel["gridPos"]> & object;
  targets: PrometheusQuery[];
  fieldConfig: {
    defaults: Defaults<Custom>;
    overrides: {
      matcher: Plain<schema.MatcherConfig>;
      properties: { id: string; value?: unknown }[];
    }[];
  };
  options: Partial<Plain<Options>>;
}

// Options of which the schema says `string[]`.
type Reduced<Options> = Omit<Plain<Options>, "reduceOptions"> & {
  reduceOptions: Omit<Plain<schema.ReduceDataOptions>, "calcs"> & {
    calcs: Reducer[];
  };
};

type Panel =
  | Plain<schema.RowPanel>
  | PanelOf<"timeseries", timeSeries.Options, timeSeries.FieldConfig>
  | PanelOf<"stat", Reduced<stat.Options>, never>
  | PanelOf<"bargauge", Reduced<barGauge.Options>, never>
  | PanelOf<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | PanelOf<"status-history", statusHistory.Options, statusHistory.FieldConfig>;

export interface Board extends Omit<Plain<schema.Dashboard>, "panels"> {
  uid: string;
  title: string;
  panels: Panel[];
}
