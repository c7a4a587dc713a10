package api

// Place is where a machine stands within its site. Each part is optional.
type Place struct {
	Zone   string `json:"zone,omitzero" maxLength:"63" doc:"availability zone; as all words of a place, of a-z, 0-9, '.', '_' and '-'"`
	Room   string `json:"room,omitzero" maxLength:"63"`
	Row    string `json:"row,omitzero" maxLength:"63"`
	Rack   string `json:"rack,omitzero" maxLength:"63"`
	Unit   int    `json:"unit,omitzero" minimum:"0" maximum:"60" doc:"lowest rack unit of the machine, from 1"`
	Domain string `json:"domain,omitzero" maxLength:"63" doc:"failure domain: what fails together, such as the nodes of one power feed"`
}

// PlaceChange changes parts of a node's place. A part that is left out stays; an empty word or unit 0
// removes it.
type PlaceChange struct {
	Zone   *string `json:"zone,omitzero" maxLength:"63"`
	Room   *string `json:"room,omitzero" maxLength:"63"`
	Row    *string `json:"row,omitzero" maxLength:"63"`
	Rack   *string `json:"rack,omitzero" maxLength:"63"`
	Unit   *int    `json:"unit,omitzero" minimum:"0" maximum:"60" doc:"lowest rack unit of the machine"`
	Domain *string `json:"domain,omitzero" maxLength:"63" doc:"failure domain"`
}

// NodePlaceChange changes the place of one node.
type NodePlaceChange struct {
	PlaceChange
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// NodePlace is a change for a node of a list.
type NodePlace struct {
	Node string `json:"node" minLength:"1" maxLength:"320" doc:"an id, a unique id prefix, a hostname, or site/hostname"`
	Line int    `json:"line,omitzero" minimum:"0" doc:"line of the file from which the item comes; a refusal names it"`
	PlaceChange
}

// NodePlaces changes the places of many nodes: all, or none.
type NodePlaces struct {
	Items  []NodePlace `json:"items" minItems:"1" maxItems:"1000"`
	Reason string      `json:"reason,omitempty" maxLength:"500"`
}

// NodePlacesResult counts what became of a list of places.
type NodePlacesResult struct {
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged" doc:"nodes that stood there already"`
}
