"""Generate: files that other programs run and watch servers by, for `rmq generate`.

    systemd             units, and the settings they name
    compose             containers of one machine: servers, console, Prometheus, Grafana
    kubernetes          manifests of a cluster; the same as a chart is helm
    helm                the chart: Chart.yaml, values, templates
    dashboard, panels   Grafana's dashboard, and what is in it
    alerts              Prometheus' rules
    server_settings     broker.conf, namesrv.conf, controller.conf of these
    accounts            first passwords
    checks              names, sizes and paths as users give them
    template            a text with places for values; they lie in the folder templates
    output              files, printed or written

Nothing here is used by a server.
"""
