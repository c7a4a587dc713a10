package adminapi

import (
	"bytes"
	"html/template"

	"github.com/hostler/hostler/broker/api"
)

// The page holds no script and fetches nothing. So the page works without a way out of the network,
// and no foreign code runs beside an operator's API.
var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Hostler operator API</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
code { font-size: 14px }
</style></head><body>
<h1>Hostler operator API</h1>
<p>The whole description, with every field, is <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1); <a href="/openapi-3.0.json">openapi-3.0.json</a>
is the same description in OpenAPI 3.0.3, for client generators that need this version. Every path needs
<code>Authorization: Bearer TOKEN</code>; the table names the lowest role that may use a path. Errors are problem details (RFC 9457) with a stable <code>code</code>.</p>
<table><tr><th>method</th><th>path</th><th>role</th><th>action</th></tr>
{{range .}}<tr><td><code>{{.Method}}</code></td><td><code>{{.Path}}</code></td><td>{{.Role}}</td><td>{{.Summary}}</td></tr>
{{end}}</table></body></html>
`))

func renderDocs(all []route) ([]byte, error) {
	type line struct{ Method, Path, Role, Summary string }
	lines := make([]line, len(all))
	for i, r := range all {
		lines[i] = line{r.method, api.Path(r.path), r.access.String(), r.summary}
	}
	var page bytes.Buffer
	err := docsPage.Execute(&page, lines)
	return page.Bytes(), err
}
