-- Why a model failed last, as JSON (gantry_domain::diagnosis::Diagnosis).
ALTER TABLE models ADD COLUMN diagnosis TEXT;
