package api

import "strings"

// HeaderRoots is on every answer: the SHA-256 of each root certificate in force, lower-case hex,
// joined by commas. A client that has other roots fetches these from /trust while the client can
// still verify the broker.
const HeaderRoots = "Hostler-Roots"

// Prefix begins the paths of the operator API, and TenantPrefix the paths of what belongs to tenants.
const (
	Prefix       = "/api/v1/admin"
	TenantPrefix = "/api/v1"
)

// Path returns the whole path of a route: below TenantPrefix for the nouns of tenants, and below
// Prefix for all others.
func Path(route string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(route, "/"), "/")
	switch noun, _, _ = strings.Cut(noun, "?"); noun {
	case "organisations", "projects", "members", "sign-in":
		return TenantPrefix + route
	}
	return Prefix + route
}

// MaxWait is the longest time, in seconds, for which ?wait= holds a request.
const MaxWait = 50

// Problem is RFC 9457's problem details with a stable code. Its media type is
// application/problem+json.
type Problem struct {
	Type   string         `json:"type,omitempty" doc:"URI of the kind of problem; default about:blank"`
	Title  string         `json:"title" doc:"the HTTP status in words"`
	Status int            `json:"status" doc:"the HTTP status"`
	Detail string         `json:"detail" doc:"what could not be done, to what, and what to do next"`
	Code   string         `json:"code" doc:"stable code in snake_case"`
	Errors []ProblemField `json:"errors,omitempty" doc:"invalid fields, each with its problem"`
}

// ProblemField names one bad field, or one fault of a file. It repeats a value only of a policy's knob that
// is no URL, and of a definition of an operation.
type ProblemField struct {
	Location string `json:"location,omitempty" doc:"location of the field, for example body.hostname, or FILE:LINE"`
	Code     string `json:"code,omitempty" doc:"stable code of a fault of a file"`
	Message  string `json:"message"`
}

// ReasonBody is the body of an action that needs only a reason.
type ReasonBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}
