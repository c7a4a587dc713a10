package adminapi

// Route is a line of the table, for the tests that walk it.
type Route struct{ Method, Path, Role string }

// Routes is the table.
func Routes() []Route {
	out := make([]Route, len(routes))
	for i, r := range routes {
		out[i] = Route{r.method, r.path, string(r.role)}
	}
	return out
}
