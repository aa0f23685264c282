"""Generate: files by which other programs run and watch servers, for `rmq generate`.

    systemd             units, and the settings files that they name
    compose             containers of one machine: servers, console, Prometheus, Grafana
    kubernetes          manifests of a cluster
    helm                the same manifests as a chart: Chart.yaml, values, templates
    dashboard, panels   Grafana's dashboard, and what is in it
    alerts              Prometheus' rules
    server_settings     broker.conf, namesrv.conf .. for these ways to run servers
    accounts            first passwords
    checks              checks of names, sizes and paths that users give
    template            fills in the texts of the folder templates, which have places for values
    output              files, printed or written

No server uses these modules.
"""
