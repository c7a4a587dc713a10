package adminapi

// Route is a line of the table, for the tests that walk it.
type Route struct {
	Method, Path, Role string
	Tenant             string // the role of tenants; empty: none
	Access             string
}

// Routes is the table.
func Routes() []Route {
	out := make([]Route, len(routes))
	for i, r := range routes {
		out[i] = Route{r.method, r.path, string(r.access.platform), string(r.access.tenant), r.access.String()}
	}
	return out
}

// AgreedOnRelease is agreed.
var AgreedOnRelease = agreed
