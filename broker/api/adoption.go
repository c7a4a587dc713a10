package api

// AdoptedMachine is one machine, already deployed by MAAS, that an operator names for adoption.
type AdoptedMachine struct {
	SystemID string `json:"system_id" minLength:"1" maxLength:"64" doc:"MAAS's"`
	SKUID    string `json:"sku_id,omitempty" maxLength:"63" doc:"what it is compared with; nothing where it is left out"`
	Hostname string `json:"hostname,omitempty" maxLength:"253" doc:"what MAAS must call it; whatever it does where it is left out"`
}

// AdoptionStart asks the broker to bind one deployed machine to a node. Adoption reads from MAAS
// and never changes anything there.
type AdoptionStart struct {
	SiteID    string `json:"site_id" minLength:"1" maxLength:"63" doc:"an id or a name"`
	ProfileID string `json:"profile_id,omitempty" maxLength:"63" doc:"an id or a name; the site's default where it is left out"`
	AdoptedMachine
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// AdoptionBatch asks for the adoption of many machines at one site.
type AdoptionBatch struct {
	SiteID    string           `json:"site_id" minLength:"1" maxLength:"63" doc:"an id or a name"`
	ProfileID string           `json:"profile_id,omitempty" maxLength:"63" doc:"an id or a name; the site's default where it is left out"`
	SKUID     string           `json:"sku_id,omitempty" maxLength:"63" doc:"of those that name none of their own"`
	Machines  []AdoptedMachine `json:"machines" minItems:"1" maxItems:"1000"`
	Reason    string           `json:"reason,omitempty" maxLength:"500"`
}
