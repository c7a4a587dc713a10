package api

// HeaderRoots is on every answer: the SHA-256 of each root certificate in force, lower-case hex,
// joined by commas. A client that has other roots fetches these from /trust while the client can
// still verify the broker.
const HeaderRoots = "Hostler-Roots"

// Prefix begins every path of the operator API.
const Prefix = "/api/v1/admin"

// MaxWait is the longest time, in seconds, for which ?wait= holds a request.
const MaxWait = 50

// Problem is RFC 9457's problem details with a stable code. Its media type is
// application/problem+json.
type Problem struct {
	Type   string         `json:"type,omitempty" doc:"a URI that names the kind of problem; about:blank where it is left out"`
	Title  string         `json:"title" doc:"the HTTP status in words"`
	Status int            `json:"status" doc:"the HTTP status"`
	Detail string         `json:"detail" doc:"what could not be done, to what, and what to do"`
	Code   string         `json:"code" doc:"stable, snake_case"`
	Errors []ProblemField `json:"errors,omitempty" doc:"what is wrong with which field"`
}

// ProblemField names one bad field. It never repeats the value.
type ProblemField struct {
	Location string `json:"location,omitempty" doc:"for example body.hostname"`
	Message  string `json:"message"`
}

// ReasonBody is the body of an action that needs only a reason.
type ReasonBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}
