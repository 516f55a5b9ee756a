//! Names by which requests choose a model. A name of a model, an adapter or a registry entry must lead to one place
//! only.

use gantry_domain::ModelId;

use crate::{StoreResult, Tx};

impl Tx {
    /// Finds the first of the names that another model, adapter or registry entry already uses. Returns the field that
    /// holds it, and a sentence that says where. `id` is the model's own id, if it has one. The result holds until the
    /// transaction ends if the transaction is [`Tx::exclusive`].
    pub async fn taken_name(
        &mut self,
        id: Option<ModelId>,
        served_name: &str,
        adapters: &[&str],
    ) -> StoreResult<Option<(&'static str, String)>> {
        let mut others = Vec::new();
        for model in self.models(false).await?.into_iter().filter(|it| Some(it.id) != id) {
            let whose = format!("the model `{}` (id {})", model.name, model.id.0);
            let names =
                model.adapters().into_iter().map(|it| (it.to_owned(), format!("an adapter of {whose}")));
            others.extend(names);
            others.push((model.served_name, whose));
        }
        let registry = self.registry().await?.into_iter();
        others.extend(registry.map(|it| (it.served_name, "an engine of the registry".to_owned())));
        let wanted = [("served_name", served_name)].into_iter();
        let wanted = wanted.chain(adapters.iter().map(|it| ("lora_adapters", *it)));
        let found = |(param, name): (&'static str, &str)| {
            let (_, whose) = others.iter().find(|(other, _)| other == name)?;
            Some((param, format!("{whose} is served as `{name}`")))
        };
        Ok(wanted.into_iter().find_map(found))
    }
}
