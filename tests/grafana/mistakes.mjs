// Mistakes that a dashboard's author can make, as changes to a whole one. `panel`
// gives the first panel of a type.
const panel = (dashboard, type) =>
  dashboard.panels.find((candidate) => candidate.type === type);

// What the compiler must refuse.
export const refused = {
  "a misspelt field of the dashboard": (d) => (d.refesh = "10s"),
  "a misspelt field of a panel": (d) => (panel(d, "stat").desciption = ""),
  "a misspelt field of gridPos": (d) => (panel(d, "stat").gridPos.width = 4),
  "a panel without a place": (d) => delete panel(d, "stat").gridPos,
  "a panel without a description": (d) => delete panel(d, "stat").description,
  "a panel of a type that there is not": (d) => (panel(d, "stat").type = "stats"),
  "a place in words": (d) => (panel(d, "stat").gridPos.x = "0"),
  "a misspelt field of a query": (d) => (panel(d, "stat").targets[0].exp = "up"),
  "a query without an expression": (d) => delete panel(d, "stat").targets[0].expr,
  "a format of queries that there is not": (d) =>
    (panel(d, "heatmap").targets[0].format = "heat_map"),
  "a misspelt field of a data source": (d) =>
    (panel(d, "stat").datasource.id = "prometheus"),
  "a misspelt field of fieldConfig": (d) =>
    (panel(d, "stat").fieldConfig.defaults.units = "s"),
  "a unit that there is not": (d) =>
    (panel(d, "stat").fieldConfig.defaults.unit = "seconds"),
  "a misspelt kind of threshold": (d) =>
    (panel(d, "stat").fieldConfig.defaults.thresholds.mode = "absolut"),
  "a colour that there is not": (d) =>
    (panel(d, "stat").fieldConfig.defaults.thresholds.steps[0].color = "grean"),
  "a misspelt option of time series": (d) =>
    (panel(d, "timeseries").options.tooltips = {}),
  "a misspelt place of the legend": (d) =>
    (panel(d, "timeseries").options.legend.placement = "below"),
  "a misspelt style of time series": (d) =>
    (panel(d, "timeseries").fieldConfig.defaults.custom.fillOpacty = 5),
  "a way of drawing that there is not": (d) =>
    (panel(d, "timeseries").fieldConfig.defaults.custom.drawStyle = "curve"),
  "an option of another type of panel": (d) =>
    (panel(d, "timeseries").options.textMode = "value"),
  "a text mode that there is not": (d) => (panel(d, "stat").options.textMode = "nam"),
  "a reducer that there is not": (d) =>
    (panel(d, "stat").options.reduceOptions.calcs = ["lastNonNull"]),
  "a misspelt option of a heat map": (d) =>
    (panel(d, "heatmap").options.cellgap = 1),
  "a scale of colours that there is not": (d) =>
    (panel(d, "heatmap").options.color.scale = "log"),
  "a misspelt field of a variable": (d) => (d.templating.list[1].multiple = true),
  "a type of variable that there is not": (d) =>
    (d.templating.list[1].type = "querry"),
  "a refresh that there is not": (d) => (d.templating.list[1].refresh = 7),
  "a misspelt field of a link": (d) => (d.links[0].keeptime = true),
  "a link without its tags": (d) => delete d.links[0].tags,
  "a row without panels": (d) => delete panel(d, "row").panels,
  "no version of the schema": (d) => delete d.schemaVersion,
};

// What no type says. Other checks of these are named behind.
export const unseen = {
  // panels.py asks it.
  "an expression that is no PromQL": (d) => (panel(d, "stat").targets[0].expr = "("),
  // dashboards.py holds them against each other.
  "panels that overlap": (d) => (d.panels[2].gridPos = d.panels[1].gridPos),
  "two panels of one id": (d) => (d.panels[2].id = d.panels[1].id),
  "a variable that there is not": (d) =>
    (panel(d, "stat").datasource.uid = "${data_source}"),
  // Nothing does.
  "a palette that there is not": (d) =>
    (panel(d, "heatmap").options.color.scheme = "Viridian"),
  "an icon that there is not": (d) => (d.links[0].icon = "exernal link"),
};
